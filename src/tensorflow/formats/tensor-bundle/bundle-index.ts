/**
 * The index of a bundle: the tensors of a checkpoint and the positions of their bytes. It is small (a few dozen bytes
 * per tensor), and indexes can be merged without reading the data files.
 */

import { invalid, ShoalError } from '../../../base/errors/errors.js';
import type { DataType } from '../../../base/proto/generated/graph_pb.js';
import { formatSlice, type TensorSlice } from './slice.js';

/** A contiguous range of bytes in one data file: a complete tensor, or one slice of it. */
export interface BundlePiece {
  /** Undefined if the piece is the complete tensor. */
  readonly slice: TensorSlice | undefined;
  readonly shard: number;
  readonly offset: number;
  readonly size: number;
  /** The unmasked crc of the piece's bytes (for strings: see string-layout.ts). */
  readonly crc32c: number;
}

export interface BundleTensor {
  readonly name: string;
  readonly dtype: DataType;
  /** The shape of the complete tensor, also if it is stored in slices. */
  readonly shape: readonly number[];
  readonly pieces: readonly BundlePiece[];
}

export interface BundleIndex {
  /** The number of data files. */
  readonly shards: number;
  readonly tensors: ReadonlyMap<string, BundleTensor>;
}

/**
 * Merges indexes of separate data files: the files are numbered consecutively in the order of the parts, and the slices
 * of each tensor are combined.
 */
export function mergeBundleIndexes(parts: readonly BundleIndex[]): BundleIndex {
  const tensors = new Map<string, BundleTensor>();
  let shards = 0;
  for (const part of parts) {
    for (const tensor of part.tensors.values()) {
      const pieces = tensor.pieces.map((piece) => ({ ...piece, shard: piece.shard + shards }));
      tensors.set(tensor.name, combineSlices(tensors.get(tensor.name), { ...tensor, pieces }));
    }
    shards += part.shards;
  }
  return { shards, tensors };
}

/** Adds the slices of `more` to those of `present`. */
export function combineSlices(present: BundleTensor | undefined, more: BundleTensor): BundleTensor {
  if (!present) return more;
  const sameShape =
    present.shape.length === more.shape.length && present.shape.every((size, i) => size === more.shape[i]);
  if (present.dtype !== more.dtype || !sameShape) {
    throw invalid(`the slices of ${more.name} disagree about its dtype or shape`, {
      hint: 'all tasks must build the same graph',
    });
  }
  const pieces = [...present.pieces, ...more.pieces];
  const names = pieces.map((piece) => (piece.slice ? formatSlice(piece.slice) : 'whole'));
  if (names.includes('whole') || new Set(names).size < names.length) {
    throw invalid(`${more.name} is saved twice`, {
      hint: 'each variable and each slice must be saved only once',
    });
  }
  return { ...present, pieces };
}

/** The tensor of that name; the error for a missing tensor lists similar names. */
export function tensorOf(index: BundleIndex, name: string, source: string): BundleTensor {
  const tensor = index.tensors.get(name);
  if (tensor) return tensor;
  const last = name.split('/').at(-1)!;
  const similar = [...index.tensors.keys()].filter((other) => other.includes(last)).slice(0, 3);
  throw new ShoalError('SHOAL_NOT_FOUND', `${source} has no tensor named ${name}`, {
    hint:
      similar.length > 0 ? `similar names: ${similar.join(', ')}` : `it has ${index.tensors.size} tensors`,
  });
}
