/** Examples in memory, and the batches of them that steps are fed with. */
import { invalid } from '../../../base/errors/errors.js';
import { DTYPES, type DType } from '../../../tensorflow/tensor/dtype.js';
import type { NestedValue } from '../../../tensorflow/tensor/literal.js';
import { formatShape } from '../../../tensorflow/tensor/shape.js';
import { Tensor, type TensorLike } from '../../../tensorflow/tensor/tensor.js';
import { ShardedFiles } from '../../../training/input/leases/sharded-files.js';

/** The examples of a model with one input, or by the names of its inputs. */
export type Examples = TensorLike | Readonly<Record<string, TensorLike>>;

export function asTensor(value: TensorLike, dtype?: DType): Tensor {
  if (value instanceof Tensor && (dtype === undefined || value.dtype === dtype)) return value;
  if (!(value instanceof Tensor)) return Tensor.of(value, dtype === undefined ? {} : { dtype });
  if (dtype !== undefined && holdsNumbers(value.dtype) && holdsNumbers(dtype))
    return Tensor.of(value.data, { dtype, shape: value.shape });
  return Tensor.of(value.toArray() as NestedValue, dtype === undefined ? {} : { dtype });
}

/** Whether the array of a tensor contains the elements, not an encoding of them. */
const holdsNumbers = (dtype: DType): boolean =>
  ['float', 'int', 'bigint', 'bool'].includes(DTYPES[dtype].kind);

/** The inputs by name. */
export function namedExamples(x: Examples, names: readonly string[]): Readonly<Record<string, TensorLike>> {
  const isNamed =
    typeof x === 'object' && !(x instanceof Tensor) && !Array.isArray(x) && !ArrayBuffer.isView(x);
  const [first, ...others] = names;
  const only = others.length === 0 ? first : undefined;
  if (!isNamed) {
    if (only !== undefined) return { [only]: x as TensorLike };
    throw invalid(`The model has the inputs ${names.join(', ')}; give the examples by these names`);
  }
  const given = Object.keys(x);
  // In a batch { x, y }, x is the only input, whatever its name is.
  if (only !== undefined && given.length === 1 && given[0] === 'x')
    return { [only]: (x as Readonly<Record<'x', TensorLike>>).x };
  const missing = names.filter((name) => !given.includes(name));
  const unknown = given.filter((name) => !names.includes(name));
  if (missing.length + unknown.length > 0)
    throw invalid(`The model has the inputs ${names.join(', ')}; the examples are ${given.join(', ')}`);
  return x as Readonly<Record<string, TensorLike>>;
}

/** The labels of a model with one output, a list, or by the names of the outputs. */
export type Labels = TensorLike | readonly TensorLike[] | Readonly<Record<string, TensorLike>>;

/** What the rows of an output's labels are called. No input is called `y`, or has a slash. */
export const labelRows = (outputs: readonly string[]): readonly string[] =>
  outputs.length === 1 ? ['y'] : outputs.map((name) => `y/${name}`);

/** The labels of each output, in order. */
export function labelsOf(method: string, y: Labels, outputs: readonly string[]): readonly TensorLike[] {
  if (y === undefined || y === null)
    throw invalid(`${method} got no labels`, {
      hint: `Call ${method}(x, y): one row of x and of y per example.`,
    });
  if (outputs.length === 1) return [y as TensorLike];
  const listed = outputs.join(', ');
  const hint = `Give a list of ${outputs.length} labels in this order, or { ${outputs.map((name) => `${name}: …`).join(', ')} }.`;
  if (Array.isArray(y)) {
    if (y.length === outputs.length) return y as readonly TensorLike[];
    throw invalid(`The model has the outputs ${listed}; ${method} got ${y.length} labels`, { hint });
  }
  const isNamed = typeof y === 'object' && !(y instanceof Tensor) && !ArrayBuffer.isView(y);
  const named = (isNamed ? y : {}) as Readonly<Record<string, TensorLike>>;
  const given = Object.keys(named);
  if (given.length === outputs.length && outputs.every((name) => Object.hasOwn(named, name)))
    return outputs.map((name) => named[name] as TensorLike);
  throw invalid(
    `The model has the outputs ${listed}; the labels are ${isNamed ? given.join(', ') : 'one tensor'}`,
    { hint },
  );
}

/** Leased records belong to the tasks of a job. */
export function refuseShards(method: string, x: unknown): void {
  if (x instanceof ShardedFiles)
    throw invalid(`${method} takes a dataset, not tf.data.shards, which a job leases to its workers`, {
      hint: 'Train on it as a job: defineJob(model.toJob({ name, input, train: { lastStep } })), then `shoal run`.',
    });
}

/** Tensors of one batch: the inputs by name, `y` or the labels of the outputs as `y/NAME`, and `sampleWeight`. */
export type Batch = Readonly<Record<string, Tensor>>;

/** Tensors with the same number of rows. */
export class Rows {
  readonly count: number;
  readonly tensors: Readonly<Record<string, Tensor>>;

  constructor(tensors: Readonly<Record<string, Tensor>>) {
    this.tensors = tensors;
    const entries = Object.entries(tensors);
    const counts = entries.map(([name, { shape, dtype }]) => {
      if (DTYPES[dtype].array === undefined || dtype === 'string')
        throw invalid(`'${name}' is of dtype ${dtype}; examples in memory must be numbers`, {
          hint: 'Train from a dataset of strings as a job: model.toJob({ input, … }).',
        });
      if (shape.length === 0) throw invalid(`'${name}' is a scalar; it must have one row per example`);
      return shape[0] as number;
    });
    this.count = counts[0] ?? 0;
    if (this.count === 0) throw invalid('There are no examples');
    if (counts.some((count) => count !== this.count)) {
      const listed = entries.map(([name, { shape }]) => `${name} ${formatShape(shape)}`).join(', ');
      throw invalid(`The examples differ in number: ${listed}`);
    }
  }

  /** The first rows, and the fraction `share` at the end. */
  split(share: number): readonly [Rows, Rows] {
    const at = Math.floor(this.count * (1 - share));
    if (!(share > 0 && share < 1) || at === 0 || at === this.count)
      throw invalid(`validationSplit must leave examples on both sides; it is ${share} of ${this.count}`);
    return [new Rows(this.range(0, at)), new Rows(this.range(at, this.count))];
  }

  batchCount(size: number): number {
    return Math.ceil(this.count / size);
  }

  /** The rows [from, to), without a copy. */
  range(from: number, to: number): Readonly<Record<string, Tensor>> {
    return this.#map((data, width) => data.subarray(from * width, to * width), to - from);
  }

  /** The rows with these numbers, copied. */
  take(numbers: Uint32Array): Readonly<Record<string, Tensor>> {
    return this.#map((data, width) => {
      const taken = data.slice(0, numbers.length * width);
      for (let i = 0; i < numbers.length; i++) {
        const at = numbers[i]! * width;
        taken.set(data.subarray(at, at + width) as never, i * width);
      }
      return taken;
    }, numbers.length);
  }

  #map(pick: (data: Float32Array, width: number) => Float32Array, count: number) {
    return Object.fromEntries(
      Object.entries(this.tensors).map(([name, tensor]) => {
        const data = tensor.data as Float32Array;
        const rows = pick(data, data.length / this.count);
        return [name, Tensor.of(rows, { dtype: tensor.dtype, shape: [count, ...tensor.shape.slice(1)] })];
      }),
    );
  }
}

/** The batches of one pass, in order, or shuffled by a source of random numbers. */
export function* batchesOf(rows: Rows, size: number, random?: () => number): Generator<Batch> {
  const order = random && shuffled(rows.count, random);
  for (let from = 0; from < rows.count; from += size) {
    const to = Math.min(from + size, rows.count);
    yield order ? rows.take(order.subarray(from, to)) : rows.range(from, to);
  }
}

function shuffled(count: number, random: () => number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}
