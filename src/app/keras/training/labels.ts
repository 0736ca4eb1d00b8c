/** Labels that are class numbers. TensorFlow would truncate fractions, and fail in the middle of training for others. */
import { invalid } from '../../../base/errors/errors.js';
import type { Shape } from '../../../tensorflow/tensor/shape.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { asTensor } from './data.js';

/** Throws unless all labels are integers in [0, classes); `classes` is null if their number is not known. */
export function checkClasses(name: string, labels: Tensor, classes: number | null): void {
  const data = asTensor(labels, 'float64').data as Float64Array;
  const limit = classes ?? Number.POSITIVE_INFINITY;
  const at = data.findIndex((label) => !Number.isInteger(label) || label < 0 || label >= limit);
  if (at < 0) return;
  const range = classes === null ? 'integers of at least 0' : `integers from 0 to ${classes - 1}`;
  throw invalid(
    `${name}${position(at, labels.shape)} is ${data[at]}, but the labels of this loss are the numbers of classes: ${range}`,
    { hint: 'Number the classes from 0, and give the model one output for each.' },
  );
}

/** `[2]`, or `[2][0]` for labels of two dimensions. */
function position(at: number, shape: Shape): string {
  let [rest, text] = [at, ''];
  for (const size of [...shape].reverse()) {
    text = `[${rest % size}]${text}`;
    rest = Math.floor(rest / size);
  }
  return text;
}
