/** Joins the rows of several requests into one batch, and divides its results among them. */
import { type DType, dtypeRow } from '../../../tensorflow/tensor/dtype.js';
import { sizeOf } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';

/** The number of rows of all values; undefined if they have no common one. */
export function rowsOf(values: readonly Tensor[]): number | undefined {
  const [first] = values;
  const rows = first?.shape[0];
  return rows !== undefined && rows > 0 && values.every(({ shape }) => shape[0] === rows) ? rows : undefined;
}

/** The same for requests that may share a batch: the shapes of rows, or only their ranks if rows are padded. */
export const shapeKey = (values: readonly Tensor[], pads: boolean): string =>
  values.map(({ shape }) => (pads ? shape.length : shape.slice(1).join(','))).join(';');

type Words = { set(from: ArrayLike<number>, at: number): void; subarray(from: number, to: number): Words };
const wordsOf = (tensor: Tensor): Words => tensor.data as unknown as Words;

/** One tensor with the rows of all, and `total` rows: the rest is copies of the first row, which is a valid input. */
export function joinRows(tensors: readonly Tensor[], total: number): Tensor {
  const [first] = tensors as [Tensor];
  const inner = innerShape(tensors);
  const shape = [total, ...inner];
  const padded = tensors.map((tensor) => padRows(tensor, inner));
  if (first.dtype === 'string') {
    const strings = padded.flatMap((tensor) => tensor.bytes());
    const row = strings.slice(0, sizeOf(inner));
    while (strings.length < sizeOf(shape)) strings.push(...row);
    return Tensor.of(strings, { dtype: 'string', shape });
  }
  const joined = Tensor.allocate(shape, first.dtype);
  const target = wordsOf(joined);
  const perRow = wordsPerRow(first.dtype, inner);
  let at = 0;
  for (const tensor of padded) {
    target.set(tensor.data as unknown as ArrayLike<number>, at);
    at += tensor.shape[0]! * perRow;
  }
  const row = target.subarray(0, perRow) as unknown as ArrayLike<number>;
  for (; at < total * perRow; at += perRow) target.set(row, at);
  return joined;
}

/** More elements than this are not made by padding, unless the rows have half as many themselves. */
const MAX_PADDED = 8 << 20;

/** Whether padding would multiply the memory of the rows. */
export function isPaddingTooLarge(tensors: readonly Tensor[]): boolean {
  const rows = tensors.reduce((sum, { shape }) => sum + shape[0]!, 0);
  const own = tensors.reduce((sum, { size }) => sum + size, 0);
  return rows * sizeOf(innerShape(tensors)) > Math.max(MAX_PADDED, 2 * own);
}

/** The largest size of each axis after the first. */
const innerShape = (tensors: readonly Tensor[]): readonly number[] =>
  tensors[0]!.shape
    .slice(1)
    .map((_, axis) => tensors.reduce((most, { shape }) => Math.max(most, shape[axis + 1]!), 0));

const wordsPerRow = (dtype: DType, inner: readonly number[]): number =>
  sizeOf(inner) * (dtypeRow(dtype).kind === 'complex' ? 2 : 1);

/** Fills shorter rows with zeros, or empty strings. */
function padRows(tensor: Tensor, inner: readonly number[]): Tensor {
  const { shape, dtype } = tensor;
  if (inner.every((size, axis) => size === shape[axis + 1])) return tensor;
  const wanted = [shape[0]!, ...inner];
  const at = offsets(shape, wanted);
  if (dtype === 'string') {
    const strings = new Array<string | Uint8Array>(sizeOf(wanted)).fill('');
    for (const [from, bytes] of tensor.bytes().entries()) strings[at(from)] = bytes;
    return Tensor.of(strings, { dtype, shape: wanted });
  }
  const padded = Tensor.zeros(wanted, dtype);
  const words = dtypeRow(dtype).kind === 'complex' ? 2 : 1;
  const source = tensor.data as unknown as number[];
  const target = padded.data as unknown as number[];
  for (let from = 0; from < sizeOf(shape); from++)
    for (let word = 0; word < words; word++) target[at(from) * words + word] = source[from * words + word]!;
  return padded;
}

/** Where an element of a smaller shape is in a larger one. */
function offsets(shape: readonly number[], larger: readonly number[]): (at: number) => number {
  return (at) => {
    let rest = at;
    let step = 1;
    let found = 0;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      found += (rest % shape[axis]!) * step;
      rest = Math.floor(rest / shape[axis]!);
      step *= larger[axis]!;
    }
    return found;
  };
}

/** Copies of rows [start, start + count). */
export function takeRows(tensor: Tensor, start: number, count: number): Tensor {
  const [, ...inner] = tensor.shape;
  const shape = [count, ...inner];
  const perRow = wordsPerRow(tensor.dtype, inner);
  if (tensor.dtype === 'string')
    return Tensor.of(tensor.bytes().slice(start * perRow, (start + count) * perRow), {
      dtype: 'string',
      shape,
    });
  const data = tensor.data as unknown as { slice(from: number, to: number): Float32Array };
  return Tensor.of(data.slice(start * perRow, (start + count) * perRow), { dtype: tensor.dtype, shape });
}
