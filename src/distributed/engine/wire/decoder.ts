/**
 * Turns the bytes of a connection into messages. Memory is allocated as bytes arrive, whatever a peer announces: the
 * pages of a large tensor are in use only once they are filled, everything else grows with what has arrived.
 */
import { VERSIONS } from '../../../base/bytes/versions.js';
import { messageOf } from '../../../base/errors/errors.js';
import { DTYPES } from '../../../tensorflow/tensor/dtype.js';
import { checkWords } from '../../../tensorflow/tensor/literal.js';
import { COPY_LIMIT, Tensor } from '../../../tensorflow/tensor/tensor.js';
import {
  corrupt,
  type Descriptor,
  FRAME_HEADER_BYTES,
  frontSize,
  type Header,
  padded,
  readDescriptors,
  readHeader,
  type WireLimits,
} from './frame.js';
import { decodeStringTensor } from './strings.js';

export interface WireMessage {
  /** 0 to 255; its meaning is the caller's. */
  readonly kind: number;
  /** An unsigned 32-bit integer; its meaning is the caller's. */
  readonly id: number;
  /** Small metadata, often empty. */
  readonly head: Uint8Array;
  readonly tensors: readonly Tensor[];
}

const EMPTY = new Uint8Array(0);
/** The first allocation for a part whose bytes arrive one by one; it doubles as they arrive. */
const FIRST_BYTES = 64 * 1024;
/** Tensors use the memory of a chunk of up to this size in place. */
const SHARED_BYTES = 1024;

/** Where the bytes of one tensor are collected. */
interface Target {
  put(bytes: Uint8Array, offset: number): void;
  finish(): Tensor;
  discard(): void;
}

interface Incoming extends ArrivedMessage {
  readonly descriptors: readonly Descriptor[];
  /** The tensor whose bytes are next. */
  next: number;
}

/** A message of which tensors may be on their way through the bulk channel. */
export interface ArrivedMessage {
  readonly header: Header;
  readonly head: Uint8Array;
  /** Without those that are missing. */
  readonly tensors: (Tensor | undefined)[];
  missing: number;
}

/** Takes the next tensor of the bulk channel. Throws if there is none. */
export type BulkInput = (descriptor: Descriptor, done: (tensor: Tensor) => void) => void;

export class Decoder {
  readonly #limits: WireLimits;
  readonly #version: number;
  readonly #onMessage: (message: ArrivedMessage) => void;
  /** Called when a missing tensor has arrived. */
  readonly #onTensor: () => void;
  /** Default: no tensor takes the bulk channel. */
  bulk: BulkInput = () => {
    throw corrupt('a tensor takes the bulk channel, and there is none');
  };
  /** The start of a message whose descriptors have not arrived completely. */
  #front = new GrowingBytes();
  /** The message whose body is being received. */
  #incoming: Incoming | undefined;
  /** Collects the current tensor; undefined before its first byte. */
  #target: Target | undefined;
  /** How many bytes of the current tensor have arrived, with padding. */
  #arrived = 0;
  #stopped = false;

  /** @param version of the stage protocol: that of the connection */
  constructor(
    limits: WireLimits,
    onMessage: (message: ArrivedMessage) => void,
    onTensor: () => void = () => {},
    version: number = VERSIONS.stages.newest,
  ) {
    this.#limits = limits;
    this.#onMessage = onMessage;
    this.#onTensor = onTensor;
    this.#version = version;
  }

  /** Whether a part of a message has arrived. */
  get isInMessage(): boolean {
    return this.#incoming !== undefined || this.#front.length > 0;
  }

  /** Takes the next bytes; throws SHOAL_CORRUPT if they are invalid. */
  push(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length && !this.#stopped) {
      at = this.#incoming ? this.#readBody(this.#incoming, chunk, at) : this.#readFront(chunk, at);
    }
  }

  /** Ends decoding and frees what was received of an incomplete message. */
  stop(): void {
    this.#stopped = true;
    this.#target?.discard();
    for (const tensor of this.#incoming?.tensors ?? []) tensor?.dispose();
    this.#target = undefined;
    this.#incoming = undefined;
    this.#front = new GrowingBytes();
  }

  #readFront(chunk: Uint8Array, at: number): number {
    const front = this.#front;
    if (front.length === 0 && chunk.length - at >= FRAME_HEADER_BYTES) {
      const view = viewOf(chunk);
      const header = readHeader(view, at, this.#limits, this.#version);
      const size = frontSize(header);
      if (chunk.length - at >= size) {
        this.#begin(header, chunk, view, at);
        return at + size;
      }
    }
    const end = Math.min(chunk.length, at + this.#frontSize() - front.length);
    front.append(chunk.subarray(at, end));
    // The header may have become complete, and more of the front be due.
    if (front.length === this.#frontSize()) {
      const bytes = front.take();
      const view = viewOf(bytes);
      this.#begin(readHeader(view, 0, this.#limits, this.#version), bytes, view, 0);
    }
    return end;
  }

  /** The size of the front that is being collected, as far as known. */
  #frontSize(): number {
    if (this.#front.length < FRAME_HEADER_BYTES) return FRAME_HEADER_BYTES;
    return frontSize(readHeader(viewOf(this.#front.bytes), 0, this.#limits, this.#version));
  }

  #begin(header: Header, bytes: Uint8Array, view: DataView, at: number): void {
    const { headBytes } = header;
    const start = at + FRAME_HEADER_BYTES;
    const head = headBytes === 0 ? EMPTY : new Uint8Array(copyOf(bytes, start, headBytes));
    const descriptors = readDescriptors(view, start + padded(headBytes), header, this.#limits, this.#version);
    const tensors = new Array<Tensor | undefined>(descriptors.length);
    const incoming: Incoming = { header, head, descriptors, tensors, next: 0, missing: 0 };
    this.#incoming = incoming;
    for (const [at, descriptor] of descriptors.entries()) {
      if (!descriptor.isBulk) continue;
      incoming.missing += 1;
      this.bulk(descriptor, (tensor) => {
        incoming.missing -= 1;
        tensors[at] = tensor;
        this.#onTensor();
      });
    }
    this.#advance(incoming);
  }

  #readBody(incoming: Incoming, chunk: Uint8Array, at: number): number {
    const descriptor = incoming.descriptors[incoming.next] as Descriptor;
    const { byteLength } = descriptor;
    const extent = padded(byteLength);
    if (this.#arrived === 0) {
      if (byteLength <= COPY_LIMIT && chunk.length - at >= extent) {
        this.#put(incoming, tensorOf(descriptor, chunk, at));
        this.#advance(incoming);
        return at + extent;
      }
      this.#target = targetFor(descriptor);
    }
    const target = this.#target as Target;
    const end = Math.min(chunk.length, at + extent - this.#arrived);
    const dataEnd = Math.min(end, at + byteLength - this.#arrived);
    if (dataEnd > at) target.put(chunk.subarray(at, dataEnd), this.#arrived);
    this.#arrived += end - at;
    if (this.#arrived === extent) {
      this.#put(incoming, target.finish());
      this.#target = undefined;
      this.#arrived = 0;
      this.#advance(incoming);
    }
    return end;
  }

  #put(incoming: Incoming, tensor: Tensor): void {
    incoming.tensors[incoming.next] = tensor;
    incoming.next += 1;
  }

  /** Adds the tensors without bytes that are next, and passes the message on if nothing more of it comes here. */
  #advance(incoming: Incoming): void {
    const { descriptors } = incoming;
    for (; incoming.next < descriptors.length; ) {
      const { isBulk, byteLength, shape, dtype } = descriptors[incoming.next] as Descriptor;
      if (isBulk) incoming.next += 1;
      else if (byteLength > 0) return;
      else this.#put(incoming, Tensor.zeros(shape, dtype));
    }
    this.#incoming = undefined;
    this.#onMessage(incoming);
  }
}

/** Bytes that are collected in memory that grows with them. */
class GrowingBytes {
  #memory = EMPTY;
  length = 0;

  get bytes(): Uint8Array {
    return this.#memory.subarray(0, this.length);
  }

  append(bytes: Uint8Array): void {
    const length = this.length + bytes.length;
    if (length > this.#memory.length) {
      const grown = new Uint8Array(Math.max(length, 2 * this.#memory.length, FIRST_BYTES));
      grown.set(this.bytes);
      this.#memory = grown;
    }
    this.#memory.set(bytes, this.length);
    this.length = length;
  }

  /** Returns the bytes and starts again. */
  take(): Uint8Array {
    const { bytes } = this;
    this.#memory = EMPTY;
    this.length = 0;
    return bytes;
  }
}

function targetFor(descriptor: Descriptor): Target {
  const { dtype, shape, byteLength } = descriptor;
  if (byteLength <= COPY_LIMIT) {
    // Its own memory, so that the tensor can use it.
    const collected = Buffer.allocUnsafeSlow(byteLength);
    return {
      put: (bytes, offset) => collected.set(bytes, offset),
      finish: () => tensorOf(descriptor, collected, 0),
      discard: () => {},
    };
  }
  if (dtype === 'string') {
    const collected = new GrowingBytes();
    return {
      put: (bytes) => collected.append(bytes),
      finish: () => tensorOf(descriptor, collected.bytes, 0),
      discard: () => {},
    };
  }
  const tensor = Tensor.allocate(shape, dtype, { lazy: true });
  return {
    put: (bytes, offset) => {
      if (DTYPES[dtype].size === 1) checkElements(bytes, descriptor);
      tensor.setBytes(bytes, offset);
    },
    finish: () => tensor,
    discard: () => tensor.dispose(),
  };
}

/** Types of less than a byte, and booleans, have invalid bytes. */
function checkElements({ buffer, byteOffset, byteLength }: Uint8Array, { dtype }: Descriptor): void {
  const ArrayType = DTYPES[dtype].array as Uint8ArrayConstructor;
  try {
    checkWords(new ArrayType(buffer as ArrayBuffer, byteOffset, byteLength), dtype);
  } catch (error) {
    throw corrupt(messageOf(error));
  }
}

function tensorOf(descriptor: Descriptor, chunk: Uint8Array, at: number): Tensor {
  const { dtype, shape, byteLength } = descriptor;
  if (dtype === 'string') return decodeStringTensor(descriptor, copyOf(chunk, at, byteLength));
  if (DTYPES[dtype].size === 1) checkElements(chunk.subarray(at, at + byteLength), descriptor);
  return Tensor.of(elementsOf(DTYPES[dtype].array as Float32ArrayConstructor, chunk, at, byteLength), {
    dtype,
    shape,
  });
}

/**
 * The elements in a chunk. A chunk belongs to this side, so its memory is used in place where that keeps little else
 * from being freed: to allocate memory takes longer than all other work on a small message.
 */
function elementsOf(
  ArrayType: Float32ArrayConstructor,
  chunk: Uint8Array,
  at: number,
  byteLength: number,
): Float32Array {
  const start = chunk.byteOffset + at;
  if (start % ArrayType.BYTES_PER_ELEMENT !== 0) return new ArrayType(copyOf(chunk, at, byteLength));
  const elements = new ArrayType(
    chunk.buffer as ArrayBuffer,
    start,
    byteLength / ArrayType.BYTES_PER_ELEMENT,
  );
  const size = chunk.buffer.byteLength;
  return size <= SHARED_BYTES || size <= 2 * byteLength ? elements : elements.slice();
}

function copyOf({ buffer, byteOffset }: Uint8Array, at: number, length: number): ArrayBuffer {
  return buffer.slice(byteOffset + at, byteOffset + at + length) as ArrayBuffer;
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
