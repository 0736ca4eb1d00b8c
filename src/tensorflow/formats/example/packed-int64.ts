/**
 * Decodes packed 64-bit varints. Both halves of a number are assembled as 32-bit integers in the memory of the result,
 * to avoid creating BigInts.
 */
import type { ByteReader } from '../../../base/bytes/reader.js';

export function decodePackedInt64(reader: ByteReader): BigInt64Array {
  const { bytes, end } = reader;
  let count = 0;
  for (let i = reader.offset; i < end; i++) if (bytes[i]! < 0x80) count++;
  const values = new BigInt64Array(count);
  const halves = new Uint32Array(values.buffer);
  let at = reader.offset;
  for (let i = 0; i < count; i++) {
    let low = 0;
    let high = 0;
    let shift = 0;
    for (;;) {
      const byte = bytes[at++]!;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else if (shift < 70) high |= bits << (shift - 32);
      else {
        reader.offset = at;
        throw reader.corrupt('an integer has more than ten bytes');
      }
      if (byte < 0x80) break;
      shift += 7;
    }
    halves[2 * i] = low;
    halves[2 * i + 1] = high;
  }
  if (at !== end) {
    reader.offset = at;
    throw reader.corrupt('an integer is truncated');
  }
  return values;
}
