/** Where the boxes of a picture of a module are: in rows, each box below all that it gets tensors from. */
export interface FlowLayout {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly { readonly x: number; readonly y: number }[];
}

export const BOX = { width: 176, height: 46 } as const;
const GAP = { x: 18, y: 30 } as const;

type Edge = readonly [number, number];

export function layOut(count: number, edges: readonly Edge[]): FlowLayout {
  const from = Array.from({ length: count }, (): number[] => []);
  const into = Array.from({ length: count }, (): number[] => []);
  for (const [a, b] of withoutLoops(count, edges)) {
    from[a]!.push(b);
    into[b]!.push(a);
  }
  const rows = rowsOf(rowNumbers(from, into), into);
  const widest = Math.max(1, ...rows.map((row) => row.length));
  const width = widest * (BOX.width + GAP.x) - GAP.x;
  const boxes = Array.from({ length: count }, () => ({ x: 0, y: 0 }));
  rows.forEach((row, y) => {
    const start = (width - (row.length * (BOX.width + GAP.x) - GAP.x)) / 2;
    row.forEach((unit, i) => {
      boxes[unit] = { x: start + i * (BOX.width + GAP.x), y: y * (BOX.height + GAP.y) };
    });
  });
  return { width, height: Math.max(1, rows.length) * (BOX.height + GAP.y) - GAP.y, boxes };
}

/** The edges without those that lead back. */
function withoutLoops(count: number, edges: readonly Edge[]): readonly Edge[] {
  const next = Array.from({ length: count }, (): number[] => []);
  for (const [a, b] of edges) if (a !== b && a < count && b < count) next[a]?.push(b);
  const state = new Array<'open' | 'done' | undefined>(count);
  const kept: Edge[] = [];
  const visit = (unit: number): void => {
    state[unit] = 'open';
    for (const other of next[unit]!) {
      if (state[other] === 'open') continue;
      kept.push([unit, other]);
      if (state[other] === undefined) visit(other);
    }
    state[unit] = 'done';
  };
  for (let unit = 0; unit < count; unit++) if (state[unit] === undefined) visit(unit);
  return kept;
}

/** The longest path to each; what gets nothing, such as a variable, is just above its first user. */
function rowNumbers(from: readonly number[][], into: readonly number[][]): readonly number[] {
  const rows = new Array<number | undefined>(from.length);
  const rowOf = (unit: number): number => {
    const known = rows[unit];
    if (known !== undefined) return known;
    const row = into[unit]!.reduce((most, other) => Math.max(most, rowOf(other) + 1), 0);
    rows[unit] = row;
    return row;
  };
  for (let unit = 0; unit < from.length; unit++) rowOf(unit);
  return from.map((users, unit) =>
    into[unit]!.length === 0 && users.length > 0
      ? Math.min(...users.map((user) => rows[user]!)) - 1
      : rows[unit]!,
  );
}

/** The units of each row, in the order of those above that they get tensors from. */
function rowsOf(numbers: readonly number[], into: readonly number[][]): readonly number[][] {
  const rows: number[][] = [];
  numbers.forEach((row, unit) => {
    rows[row] ??= [];
    rows[row].push(unit);
  });
  const place = new Map<number, number>();
  const middle = (unit: number): number => {
    const known = into[unit]!.flatMap((other) => place.get(other) ?? []);
    return known.length === 0 ? 0.5 : known.reduce((sum, one) => sum + one, 0) / known.length;
  };
  for (const row of rows) {
    row.sort((a, b) => middle(a) - middle(b) || a - b);
    row.forEach((unit, i) => {
      place.set(unit, (i + 0.5) / row.length);
    });
  }
  return rows;
}
