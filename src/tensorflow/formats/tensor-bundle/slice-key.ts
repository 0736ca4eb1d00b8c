/**
 * The index key of a slice of a tensor: it begins with a zero byte, which no tensor name does, so that all slices sort
 * before all names.
 */
import type { ByteReader } from '../../../base/bytes/reader.js';
import { ByteWriter } from '../../../base/bytes/writer.js';
import {
  readSigned,
  readString,
  readUnsigned,
  writeSigned,
  writeString,
  writeUnsigned,
} from './ordered-code.js';
import type { Extent, TensorSlice } from './slice.js';

const ALL = { start: 0, length: -1 };
const MAX_RANK = 254;

export function encodeSliceKey(name: string, slice: TensorSlice): Uint8Array {
  const writer = new ByteWriter(name.length + 8 + slice.length * 4);
  writeUnsigned(writer, 0);
  writeString(writer, new TextEncoder().encode(name));
  writeUnsigned(writer, slice.length);
  for (const extent of slice) {
    const { start, length } = extent === 'all' ? ALL : extent;
    writeSigned(writer, BigInt(start));
    writeSigned(writer, BigInt(length));
  }
  return writer.take();
}

export function decodeSliceKey(reader: ByteReader): { name: string; slice: TensorSlice } {
  if (readUnsigned(reader, 'the start of a slice key') !== 0)
    throw reader.corrupt('a slice key has an invalid start');
  const name = Buffer.from(readString(reader, 'the name in a slice key')).toString('utf8');
  const rank = readUnsigned(reader, 'the rank in a slice key');
  if (rank === 0 || rank > MAX_RANK) throw reader.corrupt(`a slice has the invalid rank ${rank}`);
  const slice: Extent[] = [];
  for (let dimension = 0; dimension < rank; dimension++) {
    const start = Number(readSigned(reader, 'a start in a slice key'));
    const length = Number(readSigned(reader, 'a length in a slice key'));
    slice.push(length < 0 ? 'all' : { start, length });
  }
  if (reader.remaining > 0) throw reader.corrupt('a slice key has extra bytes at the end');
  return { name, slice };
}
