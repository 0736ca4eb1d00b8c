/**
 * The common elements of two regions of a tensor, as contiguous runs in ascending order on both sides. Resharding is
 * based on this: a saved slice is one region, a requested slice the other.
 */
import type { Box } from './slice.js';

/** `count` elements that lie at `from` in the source and at `to` in the target. */
export interface Run {
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

export function* sharedRuns(source: Box, target: Box): Generator<Run> {
  const rank = source.lengths.length;
  const starts: number[] = [];
  const lengths: number[] = [];
  for (let d = 0; d < rank; d++) {
    const start = Math.max(source.starts[d]!, target.starts[d]!);
    const end = Math.min(source.starts[d]! + source.lengths[d]!, target.starts[d]! + target.lengths[d]!);
    if (end <= start) return;
    starts.push(start);
    lengths.push(end - start);
  }
  // Trailing dimensions that both regions cover completely belong to one run, and so does the one before them.
  let inner = rank - 1;
  while (inner > 0 && lengths[inner] === source.lengths[inner] && lengths[inner] === target.lengths[inner])
    inner--;
  const count = lengths.slice(Math.max(inner, 0)).reduce((product, length) => product * length, 1);

  const outer = lengths.slice(0, Math.max(inner, 0));
  const at = outer.map(() => 0);
  for (;;) {
    yield { from: position(source, starts, at), to: position(target, starts, at), count };
    let d = outer.length - 1;
    while (d >= 0 && ++at[d]! === outer[d]) at[d--] = 0;
    if (d < 0) return;
  }
}

/** The offset in a region, in elements, of the element `at` steps behind `starts`. */
function position(box: Box, starts: readonly number[], at: readonly number[]): number {
  let offset = 0;
  for (let d = 0; d < starts.length; d++) {
    offset = offset * box.lengths[d]! + (starts[d]! + (at[d] ?? 0) - box.starts[d]!);
  }
  return offset;
}
