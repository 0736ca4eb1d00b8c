/**
 * A byte buffer that grows as it is written. Its bytes are taken once, as a view without a copy.
 */
import { MAX_VARINT_BYTES, putVarint } from './varint.js';

const encoder = new TextEncoder();

export class ByteWriter {
  #bytes: Uint8Array;
  #view: DataView;
  #length = 0;

  constructor(capacity = 256) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get length(): number {
    return this.#length;
  }

  /** Makes room for `count` more bytes and gives the offset at which they start. */
  #reserve(count: number): number {
    const start = this.#length;
    const needed = start + count;
    if (needed > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2, 64));
      grown.set(this.#bytes.subarray(0, start));
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
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
    this.#view.setUint32(at, value, true);
    this.#length = at + 4;
    return this;
  }

  fixed64(value: bigint): this {
    const at = this.#reserve(8);
    this.#view.setBigUint64(at, BigInt.asUintN(64, value), true);
    this.#length = at + 8;
    return this;
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

  /** Bytes that the caller fills in at once; they are zero or rubbish until then. */
  claim(count: number): Uint8Array {
    const at = this.#reserve(count);
    this.#length = at + count;
    return this.#bytes.subarray(at, at + count);
  }

  /** What has been written so far, as a view that stays right only until the next write. */
  peek(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Hands over what has been written and starts again, empty, with a fresh buffer. */
  take(capacity = 0): Uint8Array {
    const taken = this.peek();
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
    this.#length = 0;
    return taken;
  }
}
