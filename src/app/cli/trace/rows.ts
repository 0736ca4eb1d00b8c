/** Puts slices into rows in which none overlaps another: what runs at the same time gets rows of its own. */

export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The slices of each row, in order. */
export function withoutOverlap<T extends Span>(spans: readonly T[]): readonly (readonly T[])[] {
  const rows: T[][] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from || b.to - a.to)) {
    const row = rows.find((one) => (one.at(-1) as T).to <= span.from);
    if (row) row.push(span);
    else rows.push([span]);
  }
  return rows;
}
