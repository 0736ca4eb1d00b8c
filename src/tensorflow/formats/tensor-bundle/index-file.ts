/**
 * The `.index` file: a table with a header under the empty key, an entry under the name of each tensor, and for
 * each slice one more under its own key. Everything read is validated, so that the rest of the code can trust it.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { compareBytes } from '../../../base/bytes/compare.js';
import { maskCrc, unmaskCrc } from '../../../base/bytes/crc32c.js';
import { ByteReader } from '../../../base/bytes/reader.js';
import { ByteWriter } from '../../../base/bytes/writer.js';
import { ShoalError } from '../../../base/errors/errors.js';
import {
  BundleHeaderProto_Endianness,
  BundleHeaderProtoSchema,
} from '../../../base/proto/generated/checkpoint_pb.js';
import { Table } from '../sstable/table.js';
import { TableWriter } from '../sstable/table-writer.js';
import type { BundleIndex, BundlePiece, BundleTensor } from './bundle-index.js';
import { dtypeName, elementBytes } from './dtypes.js';
import { type BundleEntry, decodeEntry, writeEntry } from './entry-codec.js';
import { boxOf, elementCount, type TensorSlice } from './slice.js';
import { decodeSliceKey, encodeSliceKey } from './slice-key.js';

const FORMAT_VERSION = 1;
const MAX_ELEMENT_BYTES = 16;
const HEADER_KEY = new Uint8Array(0);

/** The bytes of the index, equal to what TensorFlow writes for the same tensors. */
export function writeIndexFile(index: BundleIndex): Uint8Array {
  const encoder = new TextEncoder();
  const entries: { key: Uint8Array; value: BundleEntry }[] = [];
  for (const tensor of index.tensors.values()) {
    const key = encoder.encode(tensor.name);
    if (tensor.pieces.every((piece) => piece.slice === undefined)) {
      entries.push({ key, value: entryOf(tensor, tensor.shape, tensor.pieces[0]!) });
      continue;
    }
    const { dtype, shape } = tensor;
    const slices = tensor.pieces.map((piece) => piece.slice!);
    entries.push({ key, value: { dtype, shape, slices, shard: 0, offset: 0, size: 0, maskedCrc: 0 } });
    for (const piece of tensor.pieces) {
      const { lengths } = boxOf(tensor.shape, piece.slice);
      entries.push({
        key: encodeSliceKey(tensor.name, piece.slice!),
        value: entryOf(tensor, lengths, piece),
      });
    }
  }
  entries.sort((a, b) => compareBytes(a.key, b.key));
  const table = new TableWriter();
  const header = create(BundleHeaderProtoSchema, {
    numShards: index.shards,
    endianness: BundleHeaderProto_Endianness.LITTLE,
    version: { producer: FORMAT_VERSION },
  });
  table.add(HEADER_KEY, toBinary(BundleHeaderProtoSchema, header));
  const bytes = new ByteWriter();
  for (const { key, value } of entries) {
    bytes.reset();
    writeEntry(bytes, value);
    table.add(key, bytes.peek());
  }
  return table.finish();
}

function entryOf(tensor: BundleTensor, shape: readonly number[], piece: BundlePiece): BundleEntry {
  const { shard, offset, size } = piece;
  return { dtype: tensor.dtype, shape, shard, offset, size, maskedCrc: maskCrc(piece.crc32c), slices: [] };
}

/** @param source the name of the file, for error messages. */
export function readIndexFile(bytes: Uint8Array, source: string): BundleIndex {
  return new IndexReader(source).read(new Table(bytes, source));
}

class IndexReader {
  readonly #source: string;
  #shards = 0;

  constructor(source: string) {
    this.#source = source;
  }

  read(table: Table): BundleIndex {
    const whole = new Map<string, BundleEntry>();
    /** Keyed by the slice key, as a binary string. */
    const slices = new Map<string, BundleEntry>();
    let first = true;
    for (const { key, value } of table.entries()) {
      if (first) {
        if (key.length > 0) throw this.#corrupt('it has no header');
        this.#readHeader(value);
        first = false;
      } else if (key[0] === 0) {
        decodeSliceKey(new ByteReader(key, `${this.#source} (key of a slice)`));
        slices.set(Buffer.from(key).toString('latin1'), decodeEntry(value, this.#source));
      } else {
        const name = new ByteReader(key, this.#source).utf8(key.length, 'the name of a tensor');
        whole.set(name, decodeEntry(value, this.#source));
      }
    }
    if (first) throw this.#corrupt('it is empty');
    const tensors = new Map<string, BundleTensor>();
    for (const [name, entry] of whole) tensors.set(name, this.#tensor(name, entry, slices));
    if (slices.size > 0) throw this.#corrupt('it has slices of tensors that it does not list');
    return { shards: this.#shards, tensors };
  }

  #corrupt(what: string): ShoalError {
    return new ShoalError('SHOAL_CORRUPT', `${this.#source}: ${what}`, {
      hint: 'the index of the checkpoint is corrupt; use another copy or an older checkpoint',
    });
  }

  #readHeader(value: Uint8Array): void {
    let header: ReturnType<typeof create<typeof BundleHeaderProtoSchema>>;
    try {
      header = fromBinary(BundleHeaderProtoSchema, value);
    } catch (cause) {
      throw new ShoalError('SHOAL_CORRUPT', `${this.#source}: the header cannot be parsed`, { cause });
    }
    if (header.endianness !== BundleHeaderProto_Endianness.LITTLE) {
      throw new ShoalError('SHOAL_UNSUPPORTED', `${this.#source} was written on a big-endian machine`, {
        hint: 'restore and save it again on a little-endian one',
      });
    }
    if ((header.version?.minConsumer ?? 0) > FORMAT_VERSION) {
      throw new ShoalError(
        'SHOAL_UNSUPPORTED',
        `${this.#source} has a newer format version than this version supports`,
      );
    }
    if (header.numShards < 0) throw this.#corrupt(`invalid number of data files: ${header.numShards}`);
    this.#shards = header.numShards;
  }

  #checkShape(name: string, shape: readonly number[]): void {
    if (!Number.isSafeInteger(elementCount(shape) * MAX_ELEMENT_BYTES)) {
      throw this.#corrupt(`${name} has the invalid shape [${shape}]`);
    }
  }

  #tensor(name: string, entry: BundleEntry, slices: Map<string, BundleEntry>): BundleTensor {
    const { dtype, shape } = entry;
    this.#checkShape(name, shape);
    if (entry.slices.length === 0) {
      return { name, dtype, shape, pieces: [this.#piece(name, shape, undefined, entry)] };
    }
    const pieces = entry.slices.map((slice) => {
      if (slice.length !== shape.length)
        throw this.#corrupt(`a slice of ${name} does not have the rank of the tensor`);
      const key = Buffer.from(encodeSliceKey(name, slice)).toString('latin1');
      const found = slices.get(key);
      if (!found) throw this.#corrupt(`a slice of ${name} is missing or listed twice`);
      slices.delete(key);
      if (found.dtype !== dtype)
        throw this.#corrupt(`a slice of ${name} does not have the dtype of the tensor`);
      return this.#piece(name, shape, slice, found);
    });
    return { name, dtype, shape, pieces };
  }

  #piece(
    name: string,
    full: readonly number[],
    slice: TensorSlice | undefined,
    entry: BundleEntry,
  ): BundlePiece {
    const { shape, shard, offset, size } = entry;
    this.#checkShape(name, shape);
    const lengths = this.#sliceShape(name, full, slice);
    if (shape.length !== lengths.length || shape.some((size, i) => size !== lengths[i])) {
      throw this.#corrupt(`a slice of ${name} has the shape [${shape}] instead of [${lengths}]`);
    }
    if (!Number.isSafeInteger(offset + size) || shard >= this.#shards) {
      throw this.#corrupt(`${name} lies outside the data files`);
    }
    const each = elementBytes(entry.dtype);
    if (each !== undefined && size !== each * elementCount(shape)) {
      throw this.#corrupt(`${name} (${dtypeName(entry.dtype)}, [${shape}]) cannot have ${size} bytes`);
    }
    return { slice, shard, offset, size, crc32c: unmaskCrc(entry.maskedCrc) };
  }

  #sliceShape(name: string, shape: readonly number[], slice: TensorSlice | undefined): readonly number[] {
    try {
      return boxOf(shape, slice).lengths;
    } catch (cause) {
      throw new ShoalError('SHOAL_CORRUPT', `${this.#source}: a slice of ${name} does not fit its shape`, {
        cause,
      });
    }
  }
}
