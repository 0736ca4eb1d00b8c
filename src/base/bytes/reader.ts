/**
 * A cursor over possibly corrupt bytes: reads never pass the end, and errors are SHOAL_CORRUPT with the source and the
 * offset.
 */
import { ShoalError } from '../errors/errors.js';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export class ByteReader {
  readonly bytes: Uint8Array;
  /** The source of the bytes for error messages, such as a file or a block of a file. */
  readonly source: string;
  offset: number;
  readonly end: number;

  constructor(bytes: Uint8Array, source: string, start = 0, end = bytes.length) {
    this.bytes = bytes;
    this.source = source;
    this.offset = start;
    this.end = end;
  }

  get remaining(): number {
    return this.end - this.offset;
  }

  corrupt(what: string): ShoalError {
    return new ShoalError('SHOAL_CORRUPT', `${this.source}: ${what} at byte ${this.offset}`);
  }

  #advance(count: number, what: string): number {
    if (count > this.end - this.offset) {
      throw this.corrupt(`${what} needs ${count} bytes but only ${this.remaining} are left`);
    }
    const at = this.offset;
    this.offset = at + count;
    return at;
  }

  u8(what = 'a byte'): number {
    return this.bytes[this.#advance(1, what)]!;
  }

  fixed32(what = 'a 32-bit number'): number {
    const at = this.#advance(4, what);
    const { bytes } = this;
    // No DataView: readers are many and short-lived, and creating one would cost more than it saves.
    return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
  }

  fixed64(what = 'a 64-bit number'): bigint {
    const low = this.fixed32(what);
    return BigInt(low) | (BigInt(this.fixed32(what)) << 32n);
  }

  /** A varint that must be a safe integer: a length, an offset, a count. */
  varint(what = 'a varint'): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 8; i++) {
      const byte = this.u8(what);
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (value > Number.MAX_SAFE_INTEGER) break;
        return value;
      }
      scale *= 128;
    }
    throw this.corrupt(`${what} is larger than 2^53`);
  }

  /** Any varint of 64 bits, unsigned. */
  bigVarint(what = 'a varint'): bigint {
    let low = 0;
    let scale = 1;
    for (let i = 0; i < 7; i++) {
      const byte = this.u8(what);
      low += (byte & 0x7f) * scale;
      if (byte < 0x80) return BigInt(low);
      scale *= 128;
    }
    let value = BigInt(low);
    for (let shift = 49n; shift <= 63n; shift += 7n) {
      const byte = this.u8(what);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw this.corrupt(`${what} has more than ten bytes`);
  }

  /** The next `count` bytes, as a view. */
  take(count: number, what = 'bytes'): Uint8Array {
    const at = this.#advance(count, what);
    return this.bytes.subarray(at, at + count);
  }

  utf8(count: number, what = 'text'): string {
    const start = this.offset;
    try {
      return decoder.decode(this.take(count, what));
    } catch (cause) {
      if (cause instanceof ShoalError) throw cause;
      this.offset = start;
      throw this.corrupt(`${what} is not UTF-8`);
    }
  }

  skip(count: number, what = 'bytes'): void {
    this.#advance(count, what);
  }

  /** A reader of only the next `count` bytes; this reader skips them. */
  sub(count: number, what: string): ByteReader {
    const at = this.#advance(count, what);
    return new ByteReader(this.bytes, this.source, at, at + count);
  }
}
