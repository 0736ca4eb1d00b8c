/**
 * The index of a bundle: which tensors a checkpoint holds and where their bytes are. It is small (some dozens
 * of bytes a tensor), independent of the bytes it describes, and merges without touching them.
 */

import { invalid, ShoalError } from '../../errors/errors.js';
import type { DataType } from '../../proto/generated/graph_pb.js';
import { formatSlice, type TensorSlice } from './slice.js';

/** A contiguous run of bytes in one data file: a whole tensor, or one slice of it. */
export interface BundlePiece {
  /** Undefined when the piece is the whole tensor. */
  readonly slice: TensorSlice | undefined;
  readonly shard: number;
  readonly offset: number;
  readonly size: number;
  /** Of the piece's bytes (for strings: see string-layout.ts), not masked. */
  readonly crc32c: number;
}

export interface BundleTensor {
  readonly name: string;
  readonly dtype: DataType;
  /** Of the whole tensor, also when it lies in slices. */
  readonly shape: readonly number[];
  readonly pieces: readonly BundlePiece[];
}

export interface BundleIndex {
  /** How many data files there are. */
  readonly shards: number;
  readonly tensors: ReadonlyMap<string, BundleTensor>;
}

/**
 * One index out of several, each of which describes data files of its own: the files are numbered on, in the
 * order of the parts, and the slices of a tensor are brought together.
 */
export function mergeBundleIndexes(parts: readonly BundleIndex[]): BundleIndex {
  const tensors = new Map<string, BundleTensor>();
  let shards = 0;
  for (const part of parts) {
    for (const tensor of part.tensors.values()) {
      const pieces = tensor.pieces.map((piece) => ({ ...piece, shard: piece.shard + shards }));
      tensors.set(tensor.name, combine(tensors.get(tensor.name), { ...tensor, pieces }));
    }
    shards += part.shards;
  }
  return { shards, tensors };
}

/** Adds the slices of `more` to those of a tensor that is there already. */
export function combine(present: BundleTensor | undefined, more: BundleTensor): BundleTensor {
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
      hint: 'each variable, and each slice of one, may be saved once',
    });
  }
  return { ...present, pieces };
}

/** The tensor of that name, or an error that helps to find the right one. */
export function tensorOf(index: BundleIndex, name: string, source: string): BundleTensor {
  const tensor = index.tensors.get(name);
  if (tensor) return tensor;
  const last = name.split('/').at(-1)!;
  const similar = [...index.tensors.keys()].filter((other) => other.includes(last)).slice(0, 3);
  throw new ShoalError('SHOAL_NOT_FOUND', `${source} holds no tensor named ${name}`, {
    hint:
      similar.length > 0 ? `it does hold ${similar.join(', ')}` : `it holds ${index.tensors.size} tensors`,
  });
}
