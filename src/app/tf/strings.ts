/** `tf.strings`: TensorFlow's functions of strings under its names, with optional arguments by position or by name. */
import type { Output } from '../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../tensorflow/layers/index.js';
import { asOutput, type BuildOptions, type Operand } from '../../tensorflow/ops/build.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import { keywords } from '../../tensorflow/ops/keywords.js';
import { reductionAxes } from '../../tensorflow/ops/math.js';
import type { DType } from '../../tensorflow/tensor/dtype.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';

export {
  asString,
  regexFullMatch,
  regexReplace,
  stringLength as length,
  stringLower as lower,
  stringStrip as strip,
  stringUpper as upper,
  substr,
  unicodeScript,
  unicodeTranscode,
} from '../../tensorflow/ops/generated/index.js';

type Strings = Operand<'string'>;

/** Fills the values into the places of a template. */
export const format = (
  template: string,
  inputs: Operand | readonly Output[],
  options: { readonly placeholder?: string | null; readonly summarize?: number | null } & BuildOptions = {},
): Output<'string'> => {
  const list = Array.isArray(inputs) ? (inputs as readonly Output[]) : [inputs as Operand];
  const { placeholder, ...rest } = options;
  return raw.stringFormat(
    list.map((input) => asOutput(input)),
    { template, placeholder: placeholder ?? '{}', ...rest },
  );
};

/** Joins the strings of several tensors, element by element. */
export const join = keywords<{ separator: string }>()(
  1,
  ['separator'],
  (inputs: readonly Strings[], separator = '', options?: BuildOptions): Output<'string'> =>
    raw.stringJoin(inputs, { separator, ...options }),
);

/** Joins the strings of one tensor along axes; default: all, the last one first. */
export const reduceJoin = keywords<{
  axis: number | readonly number[];
  keepdims: boolean;
  keepDims: boolean;
  separator: string;
}>()(
  1,
  ['axis', ['keepdims', 'keepDims'], 'separator'],
  (
    inputs: Strings,
    axis?: number | readonly number[],
    keepDims = false,
    separator = '',
    options?: BuildOptions,
  ): Output<'string'> => {
    const x = asOutput(inputs, 'string');
    const all =
      axis === undefined && x.rank !== null ? Array.from({ length: x.rank }, (_, i) => -1 - i) : axis;
    return raw.reduceJoin(x, reductionAxes(x, all) as Operand<'int32'>, { keepDims, separator, ...options });
  },
);

/** Splits each string; default: at white space. */
export const split = keywords<{ sep: string; maxsplit: number }>()(
  1,
  ['sep', 'maxsplit'],
  (input: Strings, sep = '', maxsplit = -1, options?: BuildOptions): SparseTensor<'string'> => {
    const { indices, values, shape } = raw.stringSplitV2(input, sep, { maxsplit, ...options });
    return new SparseTensor<'string'>({ indices, values, denseShape: shape });
  },
);

const hashBucket = (op: typeof raw.stringToHashBucketFast) =>
  keywords<{ numBuckets: number }>()(
    1,
    ['numBuckets'],
    (input: Strings, numBuckets: number, options?: BuildOptions): Output<'int64'> =>
      op(input, { numBuckets, ...options }),
  );

export const toHashBucket = hashBucket(raw.stringToHashBucket);
export const toHashBucketFast = hashBucket(raw.stringToHashBucketFast);
/** A hash that nobody can foresee without the key, two numbers. */
export const toHashBucketStrong = keywords<{ numBuckets: number; key: readonly number[] }>()(
  1,
  ['numBuckets', 'key'],
  (input: Strings, numBuckets: number, key: readonly number[], options?: BuildOptions): Output<'int64'> =>
    raw.stringToHashBucketStrong(input, { numBuckets, key, ...options }),
);

export const toNumber = keywords<{ outType: DType }>()(
  1,
  ['outType'],
  (input: Strings, outType: DType = 'float32', options?: BuildOptions): Output =>
    raw.stringToNumber(input, { outType, ...options }),
);

/** Joins the strings of each segment. */
export const unsortedSegmentJoin = keywords<{ separator: string }>()(
  3,
  ['separator'],
  (
    inputs: Strings,
    segmentIds: Operand,
    numSegments: Operand,
    separator = '',
    options?: BuildOptions,
  ): Output<'string'> => {
    const count = typeof numSegments === 'number' ? Tensor.of(numSegments, { dtype: 'int32' }) : numSegments;
    return raw.unsortedSegmentJoin(inputs, segmentIds, count, { separator, ...options });
  },
);
