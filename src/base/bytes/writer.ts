/**
 * A growable byte buffer. Its bytes are taken once, as a view without a copy.
 */
import { MAX_VARINT_BYTES, putVarint, varintLength } from './varint.js';

const encoder = new TextEncoder();

export class ByteWriter {
  #bytes: Uint8Array;
  #length = 0;

  constructor(capacity = 256) {
    this.#bytes = new Uint8Array(capacity);
  }

  get length(): number {
    return this.#length;
  }

  /** Reserves `count` bytes and returns their offset. */
  #reserve(count: number): number {
    const start = this.#length;
    const needed = start + count;
    if (needed > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2, 64));
      grown.set(this.#bytes.subarray(0, start));
      this.#bytes = grown;
    }
    return start;
  }

  u8(value: number): this {
    const at = this.#reserve(1);
    this.#bytes[at] = value;
    this.#length = at + 1;
    return this;
  }

  fixed32(value: number): this {
    const at = this.#reserve(4);
    const bytes = this.#bytes;
    bytes[at] = value;
    bytes[at + 1] = value >>> 8;
    bytes[at + 2] = value >>> 16;
    bytes[at + 3] = value >>> 24;
    this.#length = at + 4;
    return this;
  }

  fixed64(value: bigint): this {
    return this.fixed32(Number(value & 0xffffffffn)).fixed32(Number((value >> 32n) & 0xffffffffn));
  }

  varint(value: number | bigint): this {
    const at = this.#reserve(MAX_VARINT_BYTES);
    this.#length = putVarint(this.#bytes, at, value);
    return this;
  }

  bytes(value: Uint8Array): this {
    const at = this.#reserve(value.length);
    this.#bytes.set(value, at);
    this.#length = at + value.length;
    return this;
  }

  utf8(value: string): this {
    const at = this.#reserve(value.length * 3);
    this.#length = at + encoder.encodeInto(value, this.#bytes.subarray(at)).written;
    return this;
  }

  /** The output of `write`, preceded by its length as a varint. */
  lengthPrefixed(write: (writer: this) => void): this {
    const at = this.#reserve(1);
    this.#length = at + 1;
    write(this);
    const length = this.#length - at - 1;
    const prefix = varintLength(length);
    if (prefix > 1) {
      this.#reserve(prefix - 1);
      this.#bytes.copyWithin(at + prefix, at + 1, this.#length);
      this.#length += prefix - 1;
    }
    putVarint(this.#bytes, at, length);
    return this;
  }

  /** Clears the contents but keeps the memory; later writes overwrite views from peek(). */
  reset(): void {
    this.#length = 0;
  }

  /** The bytes written so far, as a view that is valid only until the next write. */
  peek(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Returns the bytes written so far and resets the writer with a new buffer. */
  take(capacity = 0): Uint8Array {
    const taken = this.peek();
    this.#bytes = new Uint8Array(capacity);
    this.#length = 0;
    return taken;
  }
}
