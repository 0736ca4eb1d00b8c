/** Ragged tensors as signatures have them: flat values, and for each ragged axis where its rows begin and end. */
import { invalid } from '../../../base/errors/errors.js';
import type { NestedValue } from '../../../tensorflow/tensor/literal.js';
import { Tensor, type TensorLike } from '../../../tensorflow/tensor/tensor.js';

export interface RaggedValue {
  readonly values: TensorLike;
  readonly nestedRowSplits: readonly TensorLike[];
}

export class RaggedTensorValue {
  readonly values: Tensor;
  /** From the outermost axis to the innermost. */
  readonly nestedRowSplits: readonly Tensor[];

  constructor(values: Tensor, nestedRowSplits: readonly Tensor[]) {
    this.values = values;
    this.nestedRowSplits = nestedRowSplits;
  }

  /** Nested arrays of rows that may differ in length. */
  toArray(): unknown[] {
    let rows = this.values.toArray() as unknown[];
    for (const splits of [...this.nestedRowSplits].reverse()) {
      const limits = Array.from(splits.data as ArrayLike<number | bigint>, Number);
      const inner = rows;
      rows = limits.slice(1).map((end, i) => inner.slice(limits[i], end));
    }
    return rows;
  }
}

export const isRaggedParts = (value: unknown): value is RaggedValue =>
  value instanceof RaggedTensorValue ||
  (typeof value === 'object' && value !== null && 'values' in value && 'nestedRowSplits' in value);

/** The values and row splits of nested arrays with `count` parts, which is one more than there are ragged axes. */
export function partsOfRagged(value: unknown, count: number, what: string): readonly TensorLike[] {
  let rows = [value] as unknown[];
  const splits: BigInt64Array[] = [];
  for (let axis = 0; axis < count; axis++) {
    if (!rows.every(Array.isArray))
      throw invalid(`${what} is ragged: pass nested arrays, or { values, nestedRowSplits }`);
    const lists = rows as unknown[][];
    let at = 0n;
    splits.push(BigInt64Array.from([0n, ...lists.map(({ length }) => (at += BigInt(length)))]));
    rows = lists.flat(1);
  }
  // The first split is that of the one list that holds everything.
  return [rows as NestedValue as TensorLike, ...splits.slice(1).map((split) => Tensor.of(split))];
}
