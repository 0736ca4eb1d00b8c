/**
 * The layout of a string tensor in a data file:
 *
 *   varint length of each · masked crc32c of the lengths · the bytes of all
 *
 * Both the crc of the lengths and that of the tensor are taken over the lengths as 32-bit numbers (64-bit where
 * they do not fit), not over the varints; the latter goes on over the stored crc and the bytes.
 */
import { crc32c, maskCrc, unmaskCrc } from '../../../base/bytes/crc32c.js';
import { ByteReader } from '../../../base/bytes/reader.js';
import { ByteWriter } from '../../../base/bytes/writer.js';

const MAX_UINT32 = 0xffffffff;

function lengthsCrc(lengths: readonly number[]): number {
  const words = new ByteWriter(lengths.length * 4);
  for (const length of lengths) {
    if (length <= MAX_UINT32) words.fixed32(length);
    else words.fixed64(BigInt(length));
  }
  return crc32c(words.peek());
}

function storedCrc(crc: number): Uint8Array {
  return new ByteWriter(4).fixed32(maskCrc(crc)).take();
}

/** The header before the strings' bytes, and its crc, to be continued over the bytes. */
export function stringsHead(lengths: readonly number[]): { head: Uint8Array; crc32c: number } {
  const crc = lengthsCrc(lengths);
  const stored = storedCrc(crc);
  const writer = new ByteWriter(lengths.length + 4);
  for (const length of lengths) writer.varint(length);
  return { head: writer.bytes(stored).take(), crc32c: crc32c(stored, crc) };
}

/** The strings of a piece, as views of its bytes, and the crc that its entry should have. */
export function decodeStrings(
  bytes: Uint8Array,
  count: number,
  source: string,
): { values: Uint8Array[]; crc32c: number } {
  const reader = new ByteReader(bytes, source);
  if (count > bytes.length) throw reader.corrupt(`${bytes.length} bytes cannot hold ${count} strings`);
  if (count === 0 && bytes.length === 0) return { values: [], crc32c: 0 };
  const lengths: number[] = [];
  let total = 0;
  for (let i = 0; i < count; i++) {
    const length = reader.varint('the length of a string');
    total += length;
    if (total > bytes.length) throw reader.corrupt('the strings are longer than the piece');
    lengths.push(length);
  }
  const crc = lengthsCrc(lengths);
  if (unmaskCrc(reader.fixed32('the checksum of the lengths')) !== crc) {
    throw reader.corrupt('the lengths of the strings do not match their checksum');
  }
  if (reader.remaining !== total)
    throw reader.corrupt(`${reader.remaining} bytes are left for ${total} bytes of strings`);
  const tail = bytes.subarray(reader.offset);
  const values = lengths.map((length) => reader.take(length));
  return { values, crc32c: crc32c(tail, crc32c(storedCrc(crc), crc)) };
}
