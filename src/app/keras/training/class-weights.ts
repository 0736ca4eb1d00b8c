/** Weights of classes, as the table that the graph looks up. */
import { invalid } from '../../../base/errors/errors.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';

/** The weight of each class by its number; classes that are not listed have weight 1. */
export type ClassWeight = Readonly<Record<number, number>>;

/** `classes` is the number of outputs of the model, null if it is not known. */
export function classTable(given: ClassWeight, classes: number | null): Tensor<'float32'> {
  const entries = Object.entries(given).map(([key, weight]) => [Number(key), weight] as const);
  const size = Math.max(classes ?? 0, 2, ...entries.map(([number]) => number + 1));
  for (const [number, weight] of entries) {
    const isClass =
      Number.isSafeInteger(number) && number >= 0 && (classes === null || number < Math.max(2, classes));
    if (!isClass || !(weight >= 0))
      throw invalid(
        `classWeight has ${weight} for class ${number}; classes are numbered from 0${classes === null ? '' : ` to ${Math.max(2, classes) - 1}`}, and weights are at least 0`,
      );
  }
  const table = new Float32Array(size).fill(1);
  for (const [number, weight] of entries) table[number] = weight;
  return Tensor.of(table);
}
