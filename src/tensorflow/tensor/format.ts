/** Values of tensors as text for a terminal, in the layout of TensorFlow.js. */
import { inspect } from 'node:util';
import { DTYPES, type DType } from './dtype.js';
import { type Elements, elementReader } from './literal.js';
import { formatShape, type Shape } from './shape.js';

/** Longer axes are shortened to their ends. */
const LONGEST_AXIS = 20;
const SHOWN_AT_ENDS = 3;
const SIGNIFICANT_DIGITS = 7;
const INDENT = '    ';

/** `Tensor(float32 [2]) [1, 2]`; values of rank 2 and more are in lines of their own, long axes are shortened. */
export function formatTensor(elements: Elements, shape: Shape, dtype: DType): string {
  const title = `Tensor(${dtype} ${formatShape(shape)})`;
  if (DTYPES[dtype].kind === 'opaque') return title;
  const read = elementReader(elements, dtype);
  const text = (i: number) => formatElement(read(i));
  if (shape.length === 0) return `${title} ${text(0)}`;
  const places = shape.map(shownPlaces);
  const widths = columnWidths(places, shape, text);
  const axis = (depth: number, offset: number): string => {
    const size = shape[depth] as number;
    const isLast = depth === shape.length - 1;
    const parts = (places[depth] as Places).map((place) => {
      if (place === '…') return '...';
      const at = offset * size + place;
      return isLast ? text(at).padStart(widths?.get(place) ?? 0) : axis(depth + 1, at);
    });
    // An empty line separates matrices, as in NumPy.
    const separator = isLast
      ? ', '
      : `,${'\n'.repeat(shape.length - 1 - depth)}${INDENT}${' '.repeat(depth + 1)}`;
    return `[${parts.join(separator)}]`;
  };
  return shape.length === 1 ? `${title} ${axis(0, 0)}` : `${title}\n${INDENT}${axis(0, 0)}`;
}

type Places = readonly (number | '…')[];

function shownPlaces(size: number): Places {
  const range = (start: number, end: number) => Array.from({ length: end - start }, (_, i) => start + i);
  if (size <= LONGEST_AXIS) return range(0, size);
  return [...range(0, SHOWN_AT_ENDS), '…', ...range(size - SHOWN_AT_ENDS, size)];
}

/** The width of each column of the last axis, so that rows align; undefined for a vector. */
function columnWidths(
  places: readonly Places[],
  shape: Shape,
  text: (i: number) => string,
): ReadonlyMap<number, number> | undefined {
  if (shape.length < 2) return undefined;
  const widths = new Map<number, number>();
  const visit = (depth: number, offset: number): void => {
    for (const place of places[depth] as Places) {
      if (place === '…') continue;
      const at = offset * (shape[depth] as number) + place;
      if (depth < shape.length - 1) visit(depth + 1, at);
      else widths.set(place, Math.max(widths.get(place) ?? 0, text(at).length));
    }
  };
  visit(0, 0);
  return widths;
}

function formatElement(value: unknown): string {
  if (typeof value === 'number') return String(Number(value.toPrecision(SIGNIFICANT_DIGITS)));
  if (typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return inspect(value, { maxStringLength: 60 });
  const { re, im } = value as { readonly re: number; readonly im: number };
  return `${formatElement(re)} ${im < 0 ? '-' : '+'} ${formatElement(Math.abs(im))}j`;
}
