/** Numbers as they are, or through a function: TensorFlow's numeric_column. */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import type { Output, OutputLike } from '../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import { asOutput } from '../../tensorflow/ops/build.js';
import { cast } from '../../tensorflow/ops/math.js';
import { type DType, isInteger } from '../../tensorflow/tensor/dtype.js';
import { sizeOf } from '../../tensorflow/tensor/shape.js';
import { type Features, fixedLenFeature } from '../input/dataset/parse-example.js';
import { checkKey, checkNumber, checkPositiveOption, parsedType } from './check.js';
import { type DenseColumn, FeatureColumn } from './feature-column.js';
import type { FeatureTensors } from './feature-tensors.js';

/** Nested lists of numbers. */
export type Numbers = readonly (number | bigint | Numbers)[];

export interface NumericColumnOptions {
  /** The shape of one example; default: [1]. */
  readonly shape?: number | readonly number[];
  /** The value of missing features, a number or one for each element; default: none, they are errors. */
  readonly defaultValue?: number | bigint | Numbers;
  /** The type of the feature; the column is float32. Default: 'float32'. */
  readonly dtype?: DType;
  /** Applied to the feature, for example to normalize it: `(x) => x.sub(mean).div(deviation)`. Default: none. */
  readonly normalizerFn?: (feature: Output) => OutputLike;
}

const OPTIONS: Names<NumericColumnOptions> = {
  shape: true,
  defaultValue: true,
  dtype: true,
  normalizerFn: true,
};

/** A column of numbers. */
export function numericColumn(key: string, options: OrNull<NumericColumnOptions> = {}): NumericColumn {
  return new NumericColumn(key, options);
}

export class NumericColumn extends FeatureColumn implements DenseColumn {
  readonly key: string;
  readonly variableShape: readonly number[];
  readonly dtype: DType;
  readonly #normalize: ((feature: Output) => OutputLike) | undefined;
  readonly #defaultValue: Numbers | number | bigint | undefined;

  /** @internal */
  constructor(key: string, given: OrNull<NumericColumnOptions>) {
    super();
    checkKey('numericColumn', key);
    const what = `The numeric column '${key}'`;
    const { shape = [1], defaultValue, dtype = 'float32', normalizerFn } = knownOptions(given, OPTIONS, what);
    this.key = key;
    this.variableShape = [shape].flat();
    for (const size of this.variableShape) checkPositiveOption(what, 'each size of its shape', size);
    checkNumber(what, dtype);
    if (normalizerFn !== undefined && typeof normalizerFn !== 'function')
      throw invalid(`${what} has a normalizerFn that is not a function`);
    this.dtype = dtype;
    this.#normalize = normalizerFn;
    this.#defaultValue =
      defaultValue === undefined ? undefined : filled(what, dtype, this.variableShape, defaultValue);
  }

  get name(): string {
    return this.key;
  }

  parseSpec(): Features {
    const { key, variableShape, dtype } = this;
    const defaultValue = this.#defaultValue as number | undefined;
    return { [key]: fixedLenFeature(variableShape, parsedType(key, dtype), defaultValue) };
  }

  /** @internal */
  denseTensor(features: FeatureTensors): Output {
    return features.once(this, () => {
      const feature = features.get(this.key, this.name);
      if (feature instanceof SparseTensor)
        throw invalid(`The numeric column '${this.key}' needs a dense feature; '${this.key}' is sparse`, {
          hint: 'Parse it with a fixed length (tf.featureColumn.makeParseExampleSpec), or call its toDense.',
        });
      checkNumber(`Feature '${this.key}'`, feature.dtype);
      const normal = this.#normalize ? asOutput(this.#normalize(feature)) : feature;
      return cast(normal, 'float32');
    });
  }
}

/** A default for each element. */
function filled(what: string, dtype: DType, shape: readonly number[], given: Numbers | number | bigint) {
  const flat = flatten(given);
  const isNumber = (value: unknown) => typeof value === 'number' || typeof value === 'bigint';
  if (!flat.every((value) => isNumber(value) && !(isInteger(dtype) && !Number.isInteger(Number(value)))))
    throw invalid(`${what} is ${dtype}; its defaultValue is not`);
  if (Array.isArray(given) && flat.length !== sizeOf(shape))
    throw invalid(`${what} has a defaultValue with ${flat.length} elements; its shape has ${sizeOf(shape)}`);
  const values = Array.isArray(given) ? flat : new Array<number | bigint>(sizeOf(shape)).fill(flat[0] ?? 0);
  return nested(values, shape);
}

const flatten = (given: Numbers | number | bigint): (number | bigint)[] =>
  typeof given === 'object' ? given.flatMap(flatten) : [given];

function nested(values: readonly (number | bigint)[], shape: readonly number[]): Numbers | number | bigint {
  const [first, ...rest] = shape;
  if (first === undefined) return values[0] ?? 0;
  const size = sizeOf(rest);
  return Array.from({ length: first }, (_, i) =>
    nested(values.slice(i * size, (i + 1) * size), rest),
  ) as Numbers;
}
