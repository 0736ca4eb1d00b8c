/**
 * String elements in native memory. A TF_TString has 24 bytes: up to 22 bytes are stored inline, longer strings
 * elsewhere. Strings are written as one block, with long strings after the elements, addressed by offset. A string
 * tensor is thus one allocation: one copy creates it, one free releases it, and references can share it.
 */
import { invalid } from '../../base/errors/errors.js';
import { copyBytes, readBytes } from '../native/buffer.js';
import type { Pointer } from '../native/library/c-api.js';

export const TSTRING_SIZE = 24;
const INLINE_CAPACITY = 22;
/** Offset and size have 32 bits; two bits of the size are reserved. */
const MAX_OFFSET = 2 ** 32 - 1;
const MAX_SIZE = 2 ** 30 - 1;

// The two low bits of the first byte encode where the bytes are.
const SMALL = 0;
const LARGE = 1;
const OFFSET = 2;
const TYPE_MASK = 3;

const encoder = new TextEncoder();

export function toBytes(value: string | Uint8Array): Uint8Array {
  return typeof value === 'string' ? encoder.encode(value) : value;
}

/** The memory of a string tensor. */
export function packStrings(values: readonly (string | Uint8Array)[]): Uint8Array {
  const encoded = values.map(toBytes);
  const head = encoded.length * TSTRING_SIZE;
  const tail = encoded.reduce(
    (sum, bytes) => sum + (bytes.length > INLINE_CAPACITY ? bytes.length + 1 : 0),
    0,
  );
  const longest = encoded.reduce((size, bytes) => Math.max(size, bytes.length), 0);
  if (longest > MAX_SIZE || head + tail > MAX_OFFSET) {
    throw invalid(`Strings of ${head + tail} bytes, the longest of ${longest}, are too long for a tensor`, {
      hint: 'A string may have up to 1 GB, the strings of one tensor up to 4 GB.',
    });
  }
  const block = new Uint8Array(head + tail);
  const words = new DataView(block.buffer);
  let free = head;
  encoded.forEach((bytes, i) => {
    const at = i * TSTRING_SIZE;
    if (bytes.length <= INLINE_CAPACITY) {
      block[at] = (bytes.length << 2) | SMALL;
      block.set(bytes, at + 1);
      return;
    }
    words.setUint32(at, (bytes.length << 2) | OFFSET, true);
    words.setUint32(at + 4, free - at, true);
    words.setUint32(at + 8, 1, true);
    block.set(bytes, free);
    free += bytes.length + 1;
  });
  return block;
}

export function readStrings(memory: Pointer, count: number): Uint8Array[] {
  const block = readBytes(memory, count * TSTRING_SIZE);
  const words = new DataView(block.buffer);
  return Array.from({ length: count }, (_, i) => {
    const at = i * TSTRING_SIZE;
    const type = (block[at] as number) & TYPE_MASK;
    if (type === SMALL) {
      const length = (block[at] as number) >> 2;
      return block.slice(at + 1, at + 1 + length);
    }
    if (type === OFFSET) {
      const size = words.getUint32(at, true) >>> 2;
      return readBytes(memory + BigInt(at + words.getUint32(at + 4, true)), size);
    }
    const size = Number(words.getBigUint64(at, true) >> 2n);
    // A large string keeps (size, capacity, pointer), a view (size, pointer, owner).
    const pointer = words.getBigUint64(type === LARGE ? at + 16 : at + 8, true);
    return readBytes(pointer, size);
  });
}

export function writeStrings(memory: Pointer, block: Uint8Array): void {
  copyBytes(memory, block, block.length);
}
