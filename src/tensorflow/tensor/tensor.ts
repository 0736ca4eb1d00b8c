/**
 * A value: element type, shape, elements.
 *
 * Small tensors are in JavaScript memory and need no `dispose`. A fetched tensor larger than COPY_LIMIT stays in
 * TensorFlow's memory, and `data` is a view of it. The memory is freed by `dispose`, or by the garbage collector once
 * neither the tensor nor any array taken from it is reachable. TensorFlow may share it with a variable: treat `data`
 * as read-only.
 */
import { inspect } from 'node:util';
import type { HeldBytes, LentBytes } from '../../base/bytes/lent-bytes.js';
import { invalid, ShoalError } from '../../base/errors/errors.js';
import { copyBytes, detach, populate, viewBytes } from '../native/buffer.js';
import { countHandle, Handle } from '../native/handle.js';
import type { Pointer } from '../native/library/c-api.js';
import { C } from '../native/library/library.js';
import {
  type DataOf,
  DTYPES,
  type DType,
  dtypeFromNumber,
  dtypeNumber,
  dtypeRow,
  type ElementOf,
} from './dtype.js';
import { formatTensor } from './format.js';
import {
  checkWords,
  dtypeOfValue,
  type Elements,
  flattenLiteral,
  isTypedArray,
  type NestedValue,
  shapeOfValue,
  unflattenLiteral,
  wordsPerElement,
} from './literal.js';
import { checkShape, formatShape, type Shape, sizeOf } from './shape.js';
import { packStrings, readStrings, writeStrings } from './strings.js';

/** Up to this many bytes a fetched tensor is copied into JavaScript memory. */
export const COPY_LIMIT = 32 * 1024;
/** Allocations of at least this size use huge pages, and are populated ahead of the code that fills them. */
const POPULATE_BYTES = 4 << 20;

export interface TensorOptions<D extends DType = DType> {
  /** The dtype; default: that of the value, float32 for numbers. */
  readonly dtype?: D;
  /** The shape; default: that of the value. */
  readonly shape?: Shape;
}

export type TensorLike = Tensor | NestedValue;

/** A property of an ArrayBuffer over TensorFlow's memory: the object whose collection frees that memory. */
const KEEPER = Symbol('keeper');

/** A TF_Tensor lent to one call. */
export interface LentTensor {
  readonly pointer: Pointer;
  /** The owner of the memory; it must stay reachable until `giveBack`. */
  readonly lender: Tensor | undefined;
  giveBack(): void;
}

export class Tensor<D extends DType = DType> {
  readonly dtype: D;
  readonly shape: Shape;
  #elements: Elements | undefined;
  /** Set if the elements are in TensorFlow's memory. */
  readonly #handle: Handle | undefined;
  /** Creates the elements on first access: V8 counts views as heap memory, and collects garbage for large ones. */
  readonly #view: (() => Elements) | undefined;
  #disposed = false;

  private constructor(
    dtype: D,
    shape: Shape,
    elements: Elements | undefined,
    handle?: Handle,
    view?: () => Elements,
  ) {
    this.dtype = dtype;
    this.shape = shape;
    this.#elements = elements;
    this.#handle = handle;
    this.#view = view;
  }

  /**
   * Creates a tensor from a scalar, nested arrays, or a typed array (flat, with `shape`). A typed array that matches
   * the dtype is used without a copy.
   */
  static of<D extends DType = DType>(value: NestedValue, options: TensorOptions<D> = {}): Tensor<D> {
    const dtype = (options.dtype ?? dtypeOfValue(value)) as D;
    dtypeNumber(dtype);
    const natural = shapeOfValue(value, dtype);
    const shape = options.shape ?? natural;
    checkShape(shape, 'A tensor');
    const size = sizeOf(shape);
    const given = sizeOf(natural);
    const { array: ArrayType } = DTYPES[dtype];
    if (isTypedArray(value) && ArrayType !== undefined && value instanceof ArrayType) {
      const expected = size * wordsPerElement(dtype);
      const isRaw =
        value.length === expected && (options.shape !== undefined || wordsPerElement(dtype) === 1);
      if (isRaw) {
        checkWords(value, dtype);
        return new Tensor(dtype, shape, value);
      }
    }
    if (given !== size) {
      throw invalid(`A tensor of shape ${formatShape(shape)} has ${size} elements; got ${given}`);
    }
    return new Tensor(dtype, shape, flattenLiteral(value, dtype, size));
  }

  static zeros<D extends DType = 'float32'>(shape: Shape, dtype: D = 'float32' as D): Tensor<D> {
    checkShape(shape, 'A tensor');
    const { array: ArrayType } = dtypeRow(dtype);
    const size = sizeOf(shape) * wordsPerElement(dtype);
    if (dtype === 'string') return new Tensor(dtype, shape, new Array<string>(size).fill(''));
    if (!ArrayType) throw invalid(`A ${dtype} tensor has no zero value`);
    return new Tensor(dtype, shape, new ArrayType(size));
  }

  /**
   * An uninitialized tensor, to be filled through `data` before other code sees it. A large one is in TensorFlow's
   * memory, so that a run can use it without a copy. With `lazy`, its pages take up memory only as they are filled.
   * With `ownerDisposes`, it never triggers a garbage collection, which would take longer than filling it.
   */
  static allocate<D extends DType>(
    shape: Shape,
    dtype: D,
    { lazy = false, ownerDisposes = false } = {},
  ): Tensor<D> {
    checkShape(shape, 'A tensor');
    const { size, array } = dtypeRow(dtype);
    const bytes = sizeOf(shape) * size;
    if (!array || bytes <= COPY_LIMIT) return Tensor.zeros(shape, dtype);
    const dims = BigInt64Array.from(shape, BigInt);
    const pointer = C().TF_AllocateTensor(dtypeNumber(dtype), dims, dims.length, bytes);
    const memory = C().TF_TensorData(pointer);
    if (!memory) {
      C().TF_DeleteTensor(pointer);
      throw new ShoalError('SHOAL_TF_RESOURCE_EXHAUSTED', `No memory for a tensor of ${bytes} bytes`);
    }
    if (bytes >= POPULATE_BYTES && !lazy) populate(memory, bytes);
    return Tensor.fromNative(pointer, 'Tensor.allocate', ownerDisposes) as Tensor<D>;
  }

  /** Takes ownership of a TF_Tensor; messages name its `origin`. @internal */
  static fromNative(pointer: Pointer, origin?: string, ownerDisposes = false): Tensor {
    const api = C();
    const dtype = dtypeFromNumber(api.TF_TensorType(pointer));
    const rank = api.TF_NumDims(pointer);
    const shape: number[] = [];
    for (let axis = 0; axis < rank; axis++) shape.push(Number(api.TF_Dim(pointer, axis)));
    const { array: ArrayType, size: elementSize } = DTYPES[dtype];
    const count = sizeOf(shape);
    const named = origin === undefined ? {} : { origin };
    if (dtype === 'string') {
      const strings = count === 0 ? [] : readStrings(api.TF_TensorData(pointer), count);
      api.TF_DeleteTensor(pointer);
      return new Tensor(dtype, shape, strings);
    }
    if (!ArrayType)
      return new Tensor(dtype, shape, undefined, new Handle('tensor', pointer, freeTensor, named));
    const bytes = count * elementSize;
    if (bytes <= COPY_LIMIT) {
      const elements = new ArrayType(count * wordsPerElement(dtype));
      if (bytes > 0) copyBytes(elements, api.TF_TensorData(pointer), bytes);
      api.TF_DeleteTensor(pointer);
      return new Tensor(dtype, shape, elements);
    }
    // Reachable from the tensor, and from every array taken from it.
    const keeper = {};
    const view = () => {
      const memory = viewBytes(api.TF_TensorData(pointer), bytes);
      Object.defineProperty(memory, KEEPER, { value: keeper });
      return new ArrayType(memory);
    };
    const handle = new Handle('tensor', pointer, freeTensor, {
      keeper,
      ...(!ownerDisposes && { bytes }),
      ...named,
    });
    return new Tensor(dtype, shape, undefined, handle, view);
  }

  get size(): number {
    return sizeOf(this.shape);
  }

  /** The size of the elements; 0 for a string tensor. */
  get byteLength(): number {
    return this.size * DTYPES[this.dtype].size;
  }

  get rank(): number {
    return this.shape.length;
  }

  /** The elements, flat, in row-major order, without a copy. */
  get data(): DataOf<D> {
    const elements = this.#live();
    if (!isTypedArray(elements)) {
      throw invalid(`A ${this.dtype} tensor has no typed array`, {
        hint: 'Use toArray(), or bytes() for the raw strings.',
      });
    }
    return elements as DataOf<D>;
  }

  /**
   * Writes bytes into a tensor created by `allocate`, before other code sees it. Unlike `data`, this creates no view of
   * TensorFlow's memory, for which V8 would collect garbage.
   */
  setBytes(bytes: Uint8Array, offset: number): void {
    if (!(offset >= 0 && offset + bytes.byteLength <= this.byteLength)) {
      throw invalid(`Bytes [${offset}, ${offset + bytes.byteLength}) are outside ${this}`);
    }
    if (this.#handle && this.#elements === undefined) {
      copyBytes(C().TF_TensorData(this.#handle.pointer) + BigInt(offset), bytes, bytes.byteLength);
      return;
    }
    const { buffer, byteOffset, byteLength } = this.data as unknown as NodeJS.TypedArray;
    new Uint8Array(buffer, byteOffset, byteLength).set(bytes, offset);
  }

  /**
   * A view of some of the bytes. V8 counts views of TensorFlow's memory as heap memory, and collects garbage for large
   * ones; this view counts until `giveBack`. The memory outlasts a `dispose` until then. @internal
   */
  lendBytes(start: number, end: number): LentBytes {
    const held = this.holdBytes();
    const { bytes, giveBack } = held.lend(start, end);
    return {
      bytes,
      giveBack: () => {
        giveBack();
        held.letGo();
      },
    };
  }

  /** Holds the bytes, past a `dispose` too, to lend one part after the other. @internal */
  holdBytes(): HeldBytes {
    const handle = this.#handle;
    const isReadable = this.#view !== undefined || this.#elements !== undefined;
    if (handle && isReadable && !this.#disposed) {
      const memory = C().TF_TensorData(handle.hold());
      const lend = (start: number, end: number) => {
        const view = viewBytes(memory + BigInt(start), end - start);
        return { bytes: new Uint8Array(view), giveBack: () => void detach(view) };
      };
      return { owner: this, address: memory, lend, letGo: () => handle.letGo() };
    }
    const { buffer, byteOffset } = this.data as unknown as NodeJS.TypedArray;
    const lend = (start: number, end: number) => ({
      bytes: new Uint8Array(buffer, byteOffset + start, end - start),
      giveBack: () => {},
    });
    return { owner: this, lend, letGo: () => {} };
  }

  /** The elements of a string tensor as bytes. */
  bytes(): Uint8Array[] {
    if (this.dtype !== 'string') throw invalid(`bytes() is for string tensors; this one is ${this.dtype}`);
    const encoder = new TextEncoder();
    return (this.#live() as (string | Uint8Array)[]).map((s) =>
      typeof s === 'string' ? encoder.encode(s) : s,
    );
  }

  /** Nested JavaScript arrays; a scalar for rank 0. */
  toArray(): unknown {
    return unflattenLiteral(this.#live(), this.shape, this.dtype);
  }

  /** The only element. */
  item(): ElementOf<D> {
    if (this.size !== 1) {
      throw invalid(`item() is for one element; this tensor has shape ${formatShape(this.shape)}`);
    }
    return unflattenLiteral(this.#live(), [], this.dtype) as ElementOf<D>;
  }

  /** The only element as a number, for any numeric dtype. */
  number(): number {
    const value: unknown = this.item();
    if (typeof value === 'bigint' && !Number.isSafeInteger(Number(value))) {
      throw invalid(`${value} is not a safe integer; use item()`);
    }
    if (typeof value !== 'number' && typeof value !== 'bigint' && typeof value !== 'boolean') {
      throw invalid(`A ${this.dtype} is not a number`);
    }
    return Number(value);
  }

  /** The same elements under another shape. */
  reshape(shape: Shape): Tensor<D> {
    checkShape(shape, 'A tensor');
    if (sizeOf(shape) !== this.size) {
      throw invalid(`${this.size} elements do not fill shape ${formatShape(shape)}`);
    }
    return new Tensor(this.dtype, shape, this.#live(), this.#handle);
  }

  /**
   * A TF_Tensor for one call. TensorFlow's memory is lent, and outlasts a `dispose` until `giveBack`; JavaScript
   * memory is copied. @internal
   */
  lend(): LentTensor {
    const handle = this.#handle;
    if (handle && this.#sharesWholeHandle()) {
      return { pointer: handle.hold(), lender: this, giveBack: () => handle.letGo() };
    }
    const elements = this.#live();
    const block = isTypedArray(elements) ? elements : packStrings(elements);
    const dims = BigInt64Array.from(this.shape, BigInt);
    const pointer = C().TF_AllocateTensor(dtypeNumber(this.dtype), dims, dims.length, block.byteLength);
    if (block.byteLength > 0) {
      const memory = C().TF_TensorData(pointer);
      if (this.dtype === 'string') writeStrings(memory, block as Uint8Array);
      else copyBytes(memory, block, block.byteLength);
    }
    countHandle('tensor', 1);
    const giveBack = () => {
      C().TF_DeleteTensor(pointer);
      countHandle('tensor', -1);
    };
    return { pointer, lender: undefined, giveBack };
  }

  /** A reshaped tensor shares memory, but its TF_Tensor has the original shape. */
  #sharesWholeHandle(): boolean {
    const pointer = (this.#handle as Handle).pointer;
    const api = C();
    return (
      api.TF_NumDims(pointer) === this.shape.length &&
      this.shape.every((dim, axis) => Number(api.TF_Dim(pointer, axis)) === dim)
    );
  }

  #live(): Elements {
    if (this.#disposed || this.#handle?.disposed) throw (this.#handle as Handle).disposedError();
    this.#elements ??= this.#view?.();
    if (this.#elements === undefined) {
      throw invalid(`A ${this.dtype} tensor is a reference into TensorFlow; its elements cannot be read`);
    }
    return this.#elements;
  }

  /**
   * Frees TensorFlow's memory and empties the arrays taken from `data`. If the engine cannot empty them, the memory
   * stays until they are collected.
   */
  dispose(): void {
    if (!this.#handle || this.#disposed) return;
    this.#disposed = true;
    if (isTypedArray(this.#elements) && !detach(this.#elements.buffer as ArrayBuffer)) return;
    this.#handle.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  toString(): string {
    return `Tensor(${this.dtype} ${formatShape(this.shape)})`;
  }

  /** What `console.log` prints: also the values, or the ends of long axes. */
  [inspect.custom](depth = 2): string {
    if (this.#disposed) return `${this} (disposed)`;
    return depth < 0 ? this.toString() : formatTensor(this.#live(), this.shape, this.dtype);
  }
}

function freeTensor(pointer: Pointer): void {
  C().TF_DeleteTensor(pointer);
}

/** Converts a value to a tensor. */
export function toTensor<D extends DType>(value: TensorLike, options: TensorOptions<D> = {}): Tensor<D> {
  if (!(value instanceof Tensor)) return Tensor.of(value, options);
  if (options.dtype !== undefined && options.dtype !== value.dtype) {
    throw invalid(`Expected a ${options.dtype} tensor; got ${value}`);
  }
  return value as Tensor<D>;
}
