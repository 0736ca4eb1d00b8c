/** Converts op attributes between JavaScript values and TensorFlow. */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { invalid, isShoalError } from '../../base/errors/errors.js';
import {
  AttrValueSchema,
  type AttrValue as ProtoAttrValue,
  type TensorShapeProto,
} from '../../base/proto/generated/graph_pb.js';
import { fillBuffer } from '../native/buffer.js';
import type { Pointer } from '../native/library/c-api.js';
import { C } from '../native/library/library.js';
import { checked } from '../native/status.js';
import { type DType, dtypeFromNumber, dtypeNumber } from '../tensor/dtype.js';
import type { PartialShape } from '../tensor/shape.js';
import { toBytes } from '../tensor/strings.js';
import { type LentTensor, Tensor } from '../tensor/tensor.js';

/** A function of the graph, by name. */
export interface FunctionRef {
  readonly functionName: string;
}

/**
 * A JavaScript value for an attribute: `type` is a DType, `shape` an array or null for an unknown rank,
 * `tensor` a Tensor, `func` a function of the graph, `int` a number or a BigInt; lists are arrays.
 */
export type AttrValue =
  | number
  | bigint
  | boolean
  | string
  | Uint8Array
  | Tensor
  | FunctionRef
  | PartialShape
  | readonly (string | Uint8Array)[]
  | readonly (number | bigint)[]
  | readonly boolean[]
  | readonly Tensor[]
  | readonly FunctionRef[]
  | readonly PartialShape[];

export type Attrs = Readonly<Record<string, AttrValue | undefined>>;

type Setter = (description: Pointer) => void;

/** Checks a value against the attribute's type and returns its setter. Makes no native calls. */
export function attrSetter(op: string, name: string, type: string, value: AttrValue): Setter {
  const wrong = (expected: string) =>
    invalid(`Attribute '${name}' of ${op} must be ${expected}; got ${show(value)}`, { op });
  const list = type.startsWith('list(');
  const base = list ? type.slice(5, -1) : type;
  if (list && !Array.isArray(value) && !ArrayBuffer.isView(value)) throw wrong(`a list of ${base}`);
  const values = (list ? [...(value as Iterable<AttrValue>)] : [value]) as readonly AttrValue[];
  const length = values.length;

  const each = <T>(expected: string, convert: (value: AttrValue) => T | undefined): readonly T[] =>
    converted(values, convert, () => wrong(expected));

  switch (base) {
    case 'int': {
      const ints = BigInt64Array.from(each('a 64-bit integer', toInt64));
      if (list) return (d) => C().TF_SetAttrIntList(d, name, ints, length);
      return (d) => C().TF_SetAttrInt(d, name, ints[0] as bigint);
    }
    case 'float': {
      const floats = Float32Array.from(each('a number', (v) => (typeof v === 'number' ? v : undefined)));
      if (list) return (d) => C().TF_SetAttrFloatList(d, name, floats, length);
      return (d) => C().TF_SetAttrFloat(d, name, floats[0] as number);
    }
    case 'bool': {
      const bools = Uint8Array.from(each('true or false', toBit));
      if (list) return (d) => C().TF_SetAttrBoolList(d, name, bools, length);
      return (d) => C().TF_SetAttrBool(d, name, bools[0] as number);
    }
    case 'type': {
      const types = Int32Array.from(each('a data type such as float32', toDTypeNumber));
      if (list) return (d) => C().TF_SetAttrTypeList(d, name, types, length);
      return (d) => C().TF_SetAttrType(d, name, types[0] as number);
    }
    case 'string': {
      const strings = each('a string', toText);
      if (list) return (d) => setStringList(d, name, strings);
      const only = strings[0] as Uint8Array;
      return (d) => C().TF_SetAttrString(d, name, only, only.length);
    }
    case 'shape': {
      const shapes = each('a shape such as [2, null], or null', toShape);
      if (list) return (d) => setShapeList(d, name, shapes);
      const only = shapes[0] as PartialShape;
      const dims = BigInt64Array.from(only ?? [], (dim) => BigInt(dim ?? -1));
      return (d) => C().TF_SetAttrShape(d, name, dims, only === null ? -1 : dims.length);
    }
    case 'tensor': {
      const tensors = each('a Tensor', (v) => (v instanceof Tensor ? v : undefined));
      return (d) => setTensors(d, name, tensors, list);
    }
    case 'func': {
      const refs = each('a function of the graph', toFunction);
      if (list) return (d) => setFunctionList(d, name, refs);
      const ref = refs[0] as FunctionRef;
      return (d) => C().TF_SetAttrFuncName(d, name, ref.functionName, Buffer.byteLength(ref.functionName));
    }
    default:
      throw invalid(`Attribute '${name}' of ${op} has the unknown type ${type}`);
  }
}

function converted<T>(
  values: readonly AttrValue[],
  convert: (value: AttrValue) => T | undefined,
  wrong: () => Error,
): readonly T[] {
  return values.map((value) => {
    const result = convert(value);
    if (result === undefined) throw wrong();
    return result;
  });
}

function toInt64(value: AttrValue): bigint | undefined {
  if (typeof value === 'bigint' && BigInt.asIntN(64, value) === value) return value;
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : undefined;
}

const toBit = (value: AttrValue): number | undefined =>
  typeof value === 'boolean' ? Number(value) : undefined;

const toDTypeNumber = (value: AttrValue): number | undefined =>
  typeof value === 'string' ? dtypeNumber(value as DType) : undefined;

const toText = (value: AttrValue): Uint8Array | undefined =>
  typeof value === 'string' || value instanceof Uint8Array ? toBytes(value) : undefined;

const toShape = (value: AttrValue): PartialShape | undefined =>
  value === null || (Array.isArray(value) && value.every(isDimension)) ? (value as PartialShape) : undefined;

const toFunction = (value: AttrValue): FunctionRef | undefined =>
  typeof (value as FunctionRef | undefined)?.functionName === 'string' ? (value as FunctionRef) : undefined;

/** A size of a static shape: -1 and null mean unknown. */
const isDimension = (dim: unknown): boolean =>
  dim === null || (Number.isSafeInteger(dim) && (dim as number) >= -1);

/** The C API sets a single function only; an AttrValue message can hold a list. */
function setFunctionList(description: Pointer, name: string, refs: readonly FunctionRef[]): void {
  const func = refs.map(({ functionName }) => ({ name: functionName }));
  const bytes = toBinary(
    AttrValueSchema,
    create(AttrValueSchema, { value: { case: 'list', value: { func } } }),
  );
  checked((status) => C().TF_SetAttrValueProto(description, name, bytes, bytes.length, status));
}

function setStringList(description: Pointer, name: string, strings: readonly Uint8Array[]): void {
  // The C API needs an array of pointers: the bytes are in one native block during the call.
  const block = Buffer.concat(strings);
  const lengths = BigUint64Array.from(strings, (s) => BigInt(s.length));
  const memory = Tensor.of(new Uint8Array(block)).lend();
  try {
    let at = block.length > 0 ? C().TF_TensorData(memory.pointer) : 0n;
    const pointers = BigUint64Array.from(strings, (s) => {
      const start = at;
      at += BigInt(s.length);
      return start;
    });
    C().TF_SetAttrStringList(description, name, pointers, lengths, strings.length);
  } finally {
    memory.giveBack();
  }
}

function setShapeList(description: Pointer, name: string, shapes: readonly PartialShape[]): void {
  const ranks = Int32Array.from(shapes, (shape) => shape?.length ?? -1);
  const dims = shapes.flatMap((shape) => (shape ?? []).map((dim) => BigInt(dim ?? -1)));
  const memory = Tensor.of(BigInt64Array.from(dims)).lend();
  try {
    let at = dims.length > 0 ? C().TF_TensorData(memory.pointer) : 0n;
    const pointers = BigUint64Array.from(shapes, (shape) => {
      const start = at;
      at += BigInt((shape?.length ?? 0) * 8);
      return start;
    });
    C().TF_SetAttrShapeList(description, name, pointers, ranks, shapes.length);
  } finally {
    memory.giveBack();
  }
}

function setTensors(description: Pointer, name: string, tensors: readonly Tensor[], list: boolean): void {
  const lent: LentTensor[] = [];
  try {
    for (const tensor of tensors) lent.push(tensor.lend());
    if (list) {
      const pointers = BigUint64Array.from(lent, ({ pointer }) => pointer);
      checked((status) => C().TF_SetAttrTensorList(description, name, pointers, lent.length, status));
    } else {
      const only = lent[0] as LentTensor;
      checked((status) => C().TF_SetAttrTensor(description, name, only.pointer, status));
    }
  } finally {
    for (const loan of lent) loan.giveBack();
  }
}

export function readAttr(op: Pointer, name: string): AttrValue | undefined {
  let bytes: Uint8Array;
  try {
    bytes = fillBuffer((buffer, status) => C().TF_OperationGetAttrValueProto(op, name, buffer, status));
  } catch (error) {
    if (isShoalError(error, 'SHOAL_TF_INVALID_ARGUMENT')) return undefined;
    throw error;
  }
  return fromProto(fromBinary(AttrValueSchema, bytes));
}

// A byte order mark is part of the string.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Safe integers become numbers, strings become text; tensor protos are not decoded. */
export function fromProto({ value }: ProtoAttrValue): AttrValue | undefined {
  switch (value.case) {
    case 's':
      return decoder.decode(value.value);
    case 'i':
      return safeInt(value.value);
    case 'f':
    case 'b':
      return value.value;
    case 'type':
      return dtypeFromNumber(value.value);
    case 'shape':
      return shapeFromProto(value.value);
    case 'func':
      return { functionName: value.value.name };
    case 'list': {
      const { s, i, f, b, type, shape, func } = value.value;
      if (s.length > 0) return s.map((text) => decoder.decode(text));
      if (i.length > 0) return i.map(safeInt) as number[];
      if (f.length > 0) return f;
      if (b.length > 0) return b;
      if (type.length > 0) return type.map(dtypeFromNumber);
      if (shape.length > 0) return shape.map(shapeFromProto);
      return func.map(({ name }) => ({ functionName: name }));
    }
    default:
      return undefined;
  }
}

const safeInt = (value: bigint): number | bigint =>
  Number.isSafeInteger(Number(value)) ? Number(value) : value;

export function shapeFromProto(shape: TensorShapeProto): PartialShape {
  return shape.unknownRank ? null : shape.dim.map(({ size }) => (size < 0n ? null : Number(size)));
}

function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(show).join(', ')}]`;
  return String(value);
}
