/**
 * Decodes snappy's raw block format. The output size is checked before allocation: no element of the format expands 2
 * bytes to more than 64, so a larger declared size is corrupt.
 */
import { ByteReader } from '../../../base/bytes/reader.js';

const MAX_EXPANSION = 64;

export function snappyDecode(input: Uint8Array, source: string): Uint8Array {
  const reader = new ByteReader(input, source);
  const length = reader.varint('the length before compression');
  if (length > input.length * MAX_EXPANSION) {
    throw reader.corrupt(`${input.length} compressed bytes cannot hold ${length} bytes`);
  }
  const output = new Uint8Array(length);
  let at = 0;
  while (reader.remaining > 0) {
    const tag = reader.u8();
    const kind = tag & 3;
    if (kind === 0) {
      const literal = reader.take(literalLength(tag >>> 2, reader), 'a literal');
      if (literal.length > length - at) throw reader.corrupt('a literal runs past the end of the output');
      output.set(literal, at);
      at += literal.length;
      continue;
    }
    const count = kind === 1 ? ((tag >>> 2) & 7) + 4 : (tag >>> 2) + 1;
    const distance = copyDistance(tag, kind, reader);
    if (distance === 0 || distance > at) throw reader.corrupt('a copy starts before the output');
    if (count > length - at) throw reader.corrupt('a copy runs past the end of the output');
    copy(output, at, distance, count);
    at += count;
  }
  if (at !== length)
    throw reader.corrupt(`a block expanded to ${at} bytes instead of the declared ${length}`);
  return output;
}

function literalLength(code: number, reader: ByteReader): number {
  if (code < 60) return code + 1;
  let length = 0;
  for (let i = 0; i < code - 59; i++) length += reader.u8('the length of a literal') * 256 ** i;
  return length + 1;
}

function copyDistance(tag: number, kind: number, reader: ByteReader): number {
  const low = reader.u8('the distance of a copy');
  if (kind === 1) return ((tag >>> 5) << 8) | low;
  const two = low | (reader.u8('the distance of a copy') << 8);
  if (kind === 2) return two;
  return (
    two + reader.u8('the distance of a copy') * 0x10000 + reader.u8('the distance of a copy') * 0x1000000
  );
}

/** A copy may overlap its own output: it then repeats the last `distance` bytes. */
function copy(output: Uint8Array, at: number, distance: number, count: number): void {
  if (distance >= count) {
    output.copyWithin(at, at - distance, at - distance + count);
    return;
  }
  for (let i = 0; i < count; i++) output[at + i] = output[at + i - distance]!;
}
