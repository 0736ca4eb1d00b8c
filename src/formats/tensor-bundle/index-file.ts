/**
 * The `.index` file: a table with a header under the empty key, an entry under the name of each tensor, and for
 * each slice one more under its own key. What is read is checked whole, so that the rest of the code can trust it.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { compareBytes } from '../../bytes/compare.js';
import { maskCrc, unmaskCrc } from '../../bytes/crc32c.js';
import { ByteReader } from '../../bytes/reader.js';
import { ShoalError } from '../../errors/errors.js';
import {
  type BundleEntryProto,
  BundleEntryProtoSchema,
  BundleHeaderProto_Endianness,
  BundleHeaderProtoSchema,
} from '../../proto/generated/checkpoint_pb.js';
import { Table } from '../sstable/table.js';
import { TableWriter } from '../sstable/table-writer.js';
import type { BundleIndex, BundlePiece, BundleTensor } from './bundle-index.js';
import { dtypeName, elementBytes } from './dtypes.js';
import { boxOf, elementCount, sliceFromProto, sliceToProto, type TensorSlice } from './slice.js';
import { decodeSliceKey, encodeSliceKey } from './slice-key.js';

const FORMAT_VERSION = 1;
const HEADER_KEY = new Uint8Array(0);

/** The bytes of the index, equal to what TensorFlow writes for the same tensors. */
export function writeIndexFile(index: BundleIndex): Uint8Array {
  const entries: { key: Uint8Array; value: BundleEntryProto }[] = [];
  for (const tensor of index.tensors.values()) {
    const sliced = tensor.pieces.some((piece) => piece.slice !== undefined);
    const key = new TextEncoder().encode(tensor.name);
    if (!sliced) {
      entries.push({ key, value: entryOf(tensor, tensor.shape, tensor.pieces[0]!) });
      continue;
    }
    const slices = tensor.pieces.map((piece) => sliceToProto(piece.slice!));
    entries.push({
      key,
      value: create(BundleEntryProtoSchema, { dtype: tensor.dtype, shape: shapeProto(tensor.shape), slices }),
    });
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
  for (const { key, value } of entries) table.add(key, toBinary(BundleEntryProtoSchema, value));
  return table.finish();
}

function shapeProto(shape: readonly number[]) {
  return { dim: shape.map((size) => ({ size: BigInt(size) })) };
}

function entryOf(tensor: BundleTensor, shape: readonly number[], piece: BundlePiece): BundleEntryProto {
  return create(BundleEntryProtoSchema, {
    dtype: tensor.dtype,
    shape: shapeProto(shape),
    shardId: piece.shard,
    offset: BigInt(piece.offset),
    size: BigInt(piece.size),
    crc32c: maskCrc(piece.crc32c),
  });
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
    const whole = new Map<string, BundleEntryProto>();
    /** By the key, as a string of bytes. */
    const slices = new Map<string, BundleEntryProto>();
    let first = true;
    for (const { key, value } of table.entries()) {
      if (first) {
        if (key.length > 0) throw this.#corrupt('it has no header');
        this.#readHeader(value);
        first = false;
      } else if (key[0] === 0) {
        decodeSliceKey(new ByteReader(key, `${this.#source} (key of a slice)`));
        slices.set(Buffer.from(key).toString('latin1'), this.#parse(value));
      } else {
        const name = new ByteReader(key, this.#source).utf8(key.length, 'the name of a tensor');
        whole.set(name, this.#parse(value));
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
      hint: 'the index of the checkpoint is damaged; use another copy or an older checkpoint',
    });
  }

  #parse(value: Uint8Array): BundleEntryProto {
    try {
      return fromBinary(BundleEntryProtoSchema, value);
    } catch (cause) {
      throw new ShoalError('SHOAL_CORRUPT', `${this.#source}: an entry can not be parsed`, { cause });
    }
  }

  #readHeader(value: Uint8Array): void {
    let header: ReturnType<typeof create<typeof BundleHeaderProtoSchema>>;
    try {
      header = fromBinary(BundleHeaderProtoSchema, value);
    } catch (cause) {
      throw new ShoalError('SHOAL_CORRUPT', `${this.#source}: the header can not be parsed`, { cause });
    }
    if (header.endianness !== BundleHeaderProto_Endianness.LITTLE) {
      throw new ShoalError('SHOAL_UNSUPPORTED', `${this.#source} was written on a big-endian machine`, {
        hint: 'restore and save it again on a little-endian one',
      });
    }
    if ((header.version?.minConsumer ?? 0) > FORMAT_VERSION) {
      throw new ShoalError('SHOAL_UNSUPPORTED', `${this.#source} is of a later format than is known here`);
    }
    if (header.numShards < 0) throw this.#corrupt(`${header.numShards} data files are not possible`);
    this.#shards = header.numShards;
  }

  #shape(name: string, entry: BundleEntryProto): number[] {
    const shape = entry.shape?.dim.map((dim) => Number(dim.size)) ?? [];
    const possible = shape.every((size) => Number.isSafeInteger(size) && size >= 0);
    if (entry.shape?.unknownRank || !possible || !Number.isSafeInteger(elementCount(shape) * 16)) {
      throw this.#corrupt(`${name} has the impossible shape [${shape}]`);
    }
    return shape;
  }

  #tensor(name: string, entry: BundleEntryProto, slices: Map<string, BundleEntryProto>): BundleTensor {
    const shape = this.#shape(name, entry);
    const { dtype } = entry;
    if (entry.slices.length === 0) {
      return { name, dtype, shape, pieces: [this.#piece(name, shape, undefined, entry)] };
    }
    const pieces = entry.slices.map((proto) => {
      const slice = sliceFromProto(proto);
      if (slice.length !== shape.length) throw this.#corrupt(`a slice of ${name} has another rank than it`);
      const key = Buffer.from(encodeSliceKey(name, slice)).toString('latin1');
      const found = slices.get(key);
      if (!found) throw this.#corrupt(`it lacks a slice of ${name}, or lists it twice`);
      slices.delete(key);
      if (found.dtype !== dtype) throw this.#corrupt(`a slice of ${name} has another dtype than it`);
      return this.#piece(name, shape, slice, found);
    });
    return { name, dtype, shape, pieces };
  }

  #piece(
    name: string,
    full: readonly number[],
    slice: TensorSlice | undefined,
    entry: BundleEntryProto,
  ): BundlePiece {
    const shape = this.#shape(name, entry);
    const lengths = this.#sliceShape(name, full, slice);
    if (shape.length !== lengths.length || shape.some((size, i) => size !== lengths[i])) {
      throw this.#corrupt(`a slice of ${name} has the shape [${shape}] instead of [${lengths}]`);
    }
    const offset = Number(entry.offset);
    const size = Number(entry.size);
    const inRange = offset >= 0 && size >= 0 && Number.isSafeInteger(offset + size);
    if (!inRange || entry.shardId < 0 || entry.shardId >= this.#shards) {
      throw this.#corrupt(`${name} lies outside the data files`);
    }
    const each = elementBytes(entry.dtype);
    if (each !== undefined && size !== each * elementCount(shape)) {
      throw this.#corrupt(`${name} (${dtypeName(entry.dtype)}, [${shape}]) can not have ${size} bytes`);
    }
    return { slice, shard: entry.shardId, offset, size, crc32c: unmaskCrc(entry.crc32c) };
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
