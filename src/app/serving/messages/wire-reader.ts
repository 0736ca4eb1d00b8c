/**
 * Reads the wire format of protocol buffers field by field, without building messages: the values of a tensor stay one
 * block of bytes. It never reads outside the given bytes, whatever they are.
 */
import { ServingError } from '../status.js';

export const VARINT = 0;
export const FIXED64 = 1;
export const BYTES = 2;
export const FIXED32 = 5;

const decoder = new TextDecoder();
const NO_BYTES = new Uint8Array(0);

/** gRPC's status for a message that cannot be parsed. */
export const malformed = (): ServingError =>
  new ServingError('INTERNAL', 'The request message cannot be parsed');

export class WireReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  /** The number and the wire type of the field that `next` found. */
  field = 0;
  type = 0;
  /** The two halves of the varint that was read last. */
  low = 0;
  high = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Moves to the next field; false at the end. The caller reads or skips its value. */
  next(): boolean {
    if (this.#at >= this.#bytes.length) return false;
    const tag = this.uint();
    this.field = Math.floor(tag / 8);
    this.type = tag & 7;
    if (this.field < 1 || this.field > 0x1fffffff) throw malformed();
    return true;
  }

  /** An unsigned varint; those of more than 32 bits lose their upper half, which is in `high`. */
  uint(): number {
    const bytes = this.#bytes;
    let low = 0;
    let high = 0;
    for (let i = 0; i < 10; i++) {
      const byte = bytes[this.#at++];
      if (byte === undefined) throw malformed();
      const part = byte & 0x7f;
      if (i < 4) low |= part << (7 * i);
      else if (i === 4) {
        low |= part << 28;
        high |= part >> 4;
      } else high |= part << (7 * i - 32);
      if (byte < 0x80) {
        this.low = low;
        this.high = high;
        return low >>> 0;
      }
    }
    throw malformed();
  }

  /** A varint of 64 bits as a number; exact up to 2^53. */
  int64(): number {
    this.uint();
    return this.high * 2 ** 32 + (this.low >>> 0);
  }

  /** A view of the bytes of a field. */
  bytes(): Uint8Array {
    if (this.type !== BYTES) throw malformed();
    const length = this.uint();
    if (this.high !== 0) throw malformed();
    return this.#take(length);
  }

  string(): string {
    return decoder.decode(this.bytes());
  }

  /** Whether the field has this wire type. Another one is malformed: the field would be misread. */
  expect(type: number): void {
    if (this.type !== type) throw malformed();
  }

  /** Skips the value, and returns its bytes. */
  raw(): Uint8Array {
    switch (this.type) {
      case VARINT: {
        const start = this.#at;
        this.uint();
        return this.#bytes.subarray(start, this.#at);
      }
      case FIXED64:
        return this.#take(8);
      case BYTES:
        return this.bytes();
      case FIXED32:
        return this.#take(4);
      default:
        // Groups have not been written since proto2.
        throw malformed();
    }
  }

  #take(length: number): Uint8Array {
    if (length === 0) return NO_BYTES;
    const end = this.#at + length;
    if (end > this.#bytes.length) throw malformed();
    const found = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return found;
  }
}
