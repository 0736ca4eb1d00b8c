/** Shapes: of values (every size known) and of graph outputs (sizes, or the rank, may be unknown). */
import { invalid } from '../../base/errors/errors.js';

/** The shape of a value. */
export type Shape = readonly number[];

/** A static shape: null for an unknown size; the shape itself is null if the rank is unknown. */
export type PartialShape = readonly (number | null)[] | null;

export function sizeOf(shape: Shape): number {
  let size = 1;
  for (const dim of shape) size *= dim;
  return size;
}

export function checkShape(shape: Shape, what: string): void {
  for (const [axis, dim] of shape.entries()) {
    if (!Number.isSafeInteger(dim) || dim < 0) {
      throw invalid(
        `${what}: size ${dim} of axis ${axis} in ${formatShape(shape)} is not a non-negative integer`,
      );
    }
  }
}

export function formatShape(shape: PartialShape): string {
  return shape === null ? '<unknown rank>' : `[${shape.map((dim) => dim ?? '?').join(', ')}]`;
}

/** Whether a value of this shape matches the static shape. */
export function isCompatible(shape: Shape, expected: PartialShape): boolean {
  return (
    expected === null ||
    (shape.length === expected.length &&
      shape.every((dim, axis) => expected[axis] === null || expected[axis] === dim))
  );
}

export function isFullyDefined(shape: PartialShape): shape is Shape {
  return shape?.every((dim) => dim !== null) ?? false;
}

/** The broadcast shape, as far as known; undefined if the shapes are incompatible. */
export function broadcastShapes(a: PartialShape, b: PartialShape): PartialShape | undefined {
  if (a === null || b === null) return null;
  const rank = Math.max(a.length, b.length);
  const result: (number | null)[] = [];
  for (let i = 0; i < rank; i++) {
    const x = i < rank - a.length ? 1 : (a[i - (rank - a.length)] as number | null);
    const y = i < rank - b.length ? 1 : (b[i - (rank - b.length)] as number | null);
    if (x === 1) result.push(y);
    else if (y === 1 || x === y) result.push(x);
    else if (x === null) result.push(y);
    else if (y === null) result.push(x);
    else return undefined;
  }
  return result;
}
