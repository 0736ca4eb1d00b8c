/** Reads the first values of a tensor in a checkpoint, and little more of the tensor than that. */
import type { BundleTensor } from '../../../tensorflow/formats/tensor-bundle/bundle-index.js';
import type { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import {
  type Extent,
  elementCount,
  type TensorSlice,
} from '../../../tensorflow/formats/tensor-bundle/slice.js';
import { dtypeFromNumber, dtypeRow } from '../../../tensorflow/tensor/dtype.js';
import { type Elements, unflattenLiteral, wordsPerElement } from '../../../tensorflow/tensor/literal.js';

export type Value = number | bigint | boolean | string | { readonly re: number; readonly im: number };

/** The bundle's reader verifies chunks, so the checksum over the complete tensor is not needed. */
export async function firstValues(
  bundle: BundleReader,
  { name, dtype, shape }: BundleTensor,
  limit: number,
  signal?: AbortSignal,
): Promise<Value[]> {
  const type = dtypeFromNumber(dtype);
  const wanted = Math.min(limit, elementCount(shape));
  if (wanted === 0) return [];
  const slice = leadingSlice(shape, wanted);
  const { array: Words } = dtypeRow(type);
  let elements: Elements;
  if (type === 'string') elements = await bundle.readStrings(name, { slice, signal });
  else {
    const bytes = await bundle.read(name, { slice, verify: false, signal });
    // A typed array must be aligned to its element size.
    const own = Uint8Array.from(bytes).buffer;
    elements = new (Words ?? Uint8Array)(own);
  }
  const have = Math.floor(elements.length / wordsPerElement(type));
  return unflattenLiteral(elements, [Math.min(wanted, have)], type) as Value[];
}

/** The smallest slice at the start of the tensor that has at least `wanted` elements in row-major order. */
export function leadingSlice(shape: readonly number[], wanted: number): TensorSlice | undefined {
  if (shape.length === 0) return undefined;
  const slice: Extent[] = [];
  let isNarrow = true;
  shape.forEach((size, axis) => {
    const inner = elementCount(shape.slice(axis + 1));
    const length = Math.min(size, Math.max(1, Math.ceil(wanted / inner)));
    slice.push(isNarrow ? { start: 0, length } : 'all');
    // Only within a single row can the next axis be narrowed as well.
    if (length > 1) isNarrow = false;
  });
  return slice;
}

/** JSON has no large integers, infinities or NaN: they become strings. */
export function toJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

/** Formats a value; a float32 with the fewest digits that identify it. */
export function showValue(value: Value, isFloat32: boolean): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'object') return `${showValue(value.re, false)}+${showValue(value.im, false)}i`;
  if (typeof value !== 'number' || !isFloat32 || !Number.isFinite(value)) return String(value);
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return String(short);
  }
  return String(Number(value.toPrecision(9)));
}
