/**
 * A slice of a tensor, as saved for partitioned variables: per dimension all of it, or a start and a length.
 *
 * `all` and an extent that happens to cover the dimension mean the same region but are written differently, so
 * a slice is kept as it was found.
 */
import { invalid, type ShoalError } from '../../../base/errors/errors.js';

export type Extent = 'all' | { readonly start: number; readonly length: number };
export type TensorSlice = readonly Extent[];

/** A region of a tensor with explicit bounds in every dimension. */
export interface Box {
  readonly starts: readonly number[];
  readonly lengths: readonly number[];
}

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** The region of a slice, or of the complete tensor without a slice. */
export function boxOf(shape: readonly number[], slice?: TensorSlice): Box {
  if (slice === undefined) return { starts: shape.map(() => 0), lengths: shape };
  if (slice.length !== shape.length) {
    throw invalid(
      `the slice ${formatSlice(slice)} has ${slice.length} dimensions, the shape [${shape}] has ${shape.length}`,
    );
  }
  const starts: number[] = [];
  const lengths: number[] = [];
  slice.forEach((extent, dimension) => {
    const size = shape[dimension]!;
    const { start, length } = extent === 'all' ? { start: 0, length: size } : extent;
    if (
      !Number.isSafeInteger(start) ||
      start < 0 ||
      !Number.isSafeInteger(length) ||
      length < 0 ||
      start + length > size
    ) {
      throw invalid(`the slice ${formatSlice(slice)} does not fit the shape [${shape}]`);
    }
    starts.push(start);
    lengths.push(length);
  });
  return { starts, lengths };
}

export function isWhole(shape: readonly number[], slice: TensorSlice): boolean {
  const { lengths } = boxOf(shape, slice);
  return lengths.every((length, dimension) => length === shape[dimension]);
}

/** As TensorFlow writes it: `0,10:-` is ten rows and all columns. */
export function formatSlice(slice: TensorSlice): string {
  return slice.map((extent) => (extent === 'all' ? '-' : `${extent.start},${extent.length}`)).join(':');
}

/** The slice format of SaveV2 and RestoreV2: `30 2 0,10:-`; an empty string means the complete tensor. */
export function formatShapeAndSlice(shape: readonly number[], slice: TensorSlice): string {
  return [...shape, formatSlice(slice)].join(' ');
}

export function parseShapeAndSlice(text: string): { shape: number[]; slice: TensorSlice } {
  const wrong = (): ShoalError =>
    invalid(`"${text}" is not a shape and a slice`, { hint: 'the format is "30 2 0,10:-"' });
  const words = text.split(' ');
  const spec = words.pop();
  if (!spec || words.length === 0) throw wrong();
  const shape = words.map((word) => {
    if (!/^\d+$/.test(word)) throw wrong();
    return Number(word);
  });
  const slice = spec.split(':').map((part): Extent => {
    if (part === '-') return 'all';
    const numbers = /^(\d+),(\d+)$/.exec(part);
    if (!numbers) throw wrong();
    return { start: Number(numbers[1]), length: Number(numbers[2]) };
  });
  boxOf(shape, slice);
  return { shape, slice };
}
