/**
 * The index entry of a tensor or of a slice: the message BundleEntryProto. The codec is hand-written for speed: a
 * checkpoint may have tens of thousands of entries, and the chief processes them between steps.
 */
import { ByteReader } from '../../../base/bytes/reader.js';
import type { ByteWriter } from '../../../base/bytes/writer.js';
import type { DataType } from '../../../base/proto/generated/graph_pb.js';
import type { Extent, TensorSlice } from './slice.js';

export interface BundleEntry {
  readonly dtype: DataType;
  readonly shape: readonly number[];
  readonly shard: number;
  readonly offset: number;
  readonly size: number;
  /** Masked, as it is stored. */
  readonly maskedCrc: number;
  /** The slices of the tensor, if any; they have separate entries. */
  readonly slices: readonly TensorSlice[];
}

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;
const key = (field: number, wire: number) => (field << 3) | wire;

/** Omits zeros, as protobuf does. */
function putNumber(writer: ByteWriter, field: number, value: number): void {
  if (value !== 0) writer.u8(key(field, VARINT)).varint(value);
}

function putMessage(writer: ByteWriter, field: number, write: (content: ByteWriter) => void): void {
  writer.u8(key(field, DELIMITED)).lengthPrefixed(write);
}

/** Appends the bytes of an entry. */
export function writeEntry(writer: ByteWriter, entry: BundleEntry): void {
  putNumber(writer, 1, entry.dtype);
  putMessage(writer, 2, (shape) => {
    for (const size of entry.shape) putMessage(shape, 2, (dimension) => putNumber(dimension, 1, size));
  });
  putNumber(writer, 3, entry.shard);
  putNumber(writer, 4, entry.offset);
  putNumber(writer, 5, entry.size);
  if (entry.maskedCrc !== 0) writer.u8(key(6, FIXED32)).fixed32(entry.maskedCrc);
  for (const slice of entry.slices) {
    putMessage(writer, 7, (content) => {
      for (const extent of slice) putMessage(content, 1, (part) => putExtent(part, extent));
    });
  }
}

function putExtent(writer: ByteWriter, extent: Extent): void {
  if (extent === 'all') return;
  putNumber(writer, 1, extent.start);
  // The length distinguishes an extent from `all`, so it is written even if it is zero.
  writer.u8(key(2, VARINT)).varint(extent.length);
}

export function decodeEntry(bytes: Uint8Array, source: string): BundleEntry {
  const reader = new ByteReader(bytes, source);
  const entry = { dtype: 0 as DataType, shape: [] as number[], shard: 0, offset: 0, size: 0, maskedCrc: 0 };
  const slices: TensorSlice[] = [];
  while (reader.remaining > 0) {
    const tag = reader.varint('a field');
    if (tag === key(1, VARINT)) entry.dtype = reader.varint('a dtype');
    else if (tag === key(2, DELIMITED)) entry.shape = readShape(message(reader));
    else if (tag === key(3, VARINT)) entry.shard = reader.varint('a shard');
    else if (tag === key(4, VARINT)) entry.offset = reader.varint('an offset');
    else if (tag === key(5, VARINT)) entry.size = reader.varint('a size');
    else if (tag === key(6, FIXED32)) entry.maskedCrc = reader.fixed32('a checksum');
    else if (tag === key(7, DELIMITED)) slices.push(readSlice(message(reader)));
    else skip(reader, tag);
  }
  return { ...entry, slices };
}

function message(reader: ByteReader): ByteReader {
  return reader.sub(reader.varint('the length of a message'), 'a message');
}

function skip(reader: ByteReader, tag: number): void {
  const wire = tag % 8;
  if (wire === VARINT) reader.bigVarint();
  else if (wire === FIXED64) reader.skip(8);
  else if (wire === FIXED32) reader.skip(4);
  else if (wire === DELIMITED) reader.skip(reader.varint());
  else throw reader.corrupt(`a field of the unknown type ${wire}`);
}

function readShape(reader: ByteReader): number[] {
  const shape: number[] = [];
  while (reader.remaining > 0) {
    const tag = reader.varint('a field');
    if (tag === key(2, DELIMITED)) shape.push(readDimension(message(reader)));
    else if (tag === key(3, VARINT) && reader.varint() !== 0) throw reader.corrupt('a shape of unknown rank');
    else if (tag !== key(3, VARINT)) skip(reader, tag);
  }
  return shape;
}

function readDimension(reader: ByteReader): number {
  let size = 0;
  while (reader.remaining > 0) {
    const tag = reader.varint('a field');
    if (tag === key(1, VARINT)) size = reader.varint('a dimension');
    else skip(reader, tag);
  }
  return size;
}

function readSlice(reader: ByteReader): TensorSlice {
  const slice: Extent[] = [];
  while (reader.remaining > 0) {
    const tag = reader.varint('a field');
    if (tag === key(1, DELIMITED)) slice.push(readExtent(message(reader)));
    else skip(reader, tag);
  }
  return slice;
}

function readExtent(reader: ByteReader): Extent {
  let start = 0;
  let length: number | undefined;
  while (reader.remaining > 0) {
    const tag = reader.varint('a field');
    if (tag === key(1, VARINT)) start = reader.varint('the start of a slice');
    else if (tag === key(2, VARINT)) length = reader.varint('the length of a slice');
    else skip(reader, tag);
  }
  return length === undefined ? 'all' : { start, length };
}
