/** Sets of integers as sorted, disjoint ranges [from, to): the consumed records of a lease. */
export interface FileRange {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

export const sizeOfRanges = (ranges: readonly FileRange[]): number =>
  ranges.reduce((sum, { from, to }) => sum + to - from, 0);

/** Adds a range to the set. */
export function withRange(ranges: readonly FileRange[], { from, to }: FileRange): readonly FileRange[] {
  if (from >= to) return ranges;
  const near = ranges.filter((one) => one.from <= to && from <= one.to);
  const joined = {
    from: Math.min(from, ...near.map((one) => one.from)),
    to: Math.max(to, ...near.map((one) => one.to)),
  };
  return [...ranges.filter((one) => !near.includes(one)), joined].sort((a, b) => a.from - b.from);
}

/** The range minus the set. */
export function without({ from, to }: FileRange, ranges: readonly FileRange[]): readonly FileRange[] {
  const ends = [...ranges.map((one) => one.from), to];
  const starts = [from, ...ranges.map((one) => one.to)];
  return starts
    .map((start, i) => ({ from: start, to: ends[i] as number }))
    .filter((gap) => gap.from < gap.to);
}
