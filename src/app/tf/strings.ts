/** `tf.strings`: TensorFlow's functions of strings under its names, with optional arguments by position or by name. */
import type { Output } from '../../tensorflow/graph/operation.js';
import { RaggedTensor, SparseTensor } from '../../tensorflow/layers/index.js';
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

/** The bytes of each string: a ragged tensor with a row for each. */
export function bytesSplit(input: Strings, options: BuildOptions = {}): RaggedTensor<'string'> {
  const { indices, values, shape } = raw.stringSplit(asOutput(input, 'string'), '', {
    skipEmpty: false,
    ...options,
  });
  return RaggedTensor.fromSparse(new SparseTensor<'string'>({ indices, values, denseShape: shape }));
}

export interface NgramsOptions extends BuildOptions {
  /** Between the words of an n-gram; default: a space. */
  readonly separator?: string | null;
  /** What to add before and after each row; default: nothing. */
  readonly padValues?: string | readonly [left: string, right: string] | null;
  /** How many pads to add; default: one less than the longest n-gram. */
  readonly paddingWidth?: number | null;
  /** Whether a row that is shorter than all n-grams is one n-gram; default: false. */
  readonly preserveShortSequences?: boolean | null;
}

/** The n-grams of the words in each row. */
export function ngrams(
  data: RaggedTensor<'string'>,
  ngramWidth: number | readonly number[],
  options: NgramsOptions = {},
): RaggedTensor<'string'> {
  const { separator, padValues, paddingWidth, preserveShortSequences, ...rest } = options;
  const [leftPad, rightPad] =
    typeof padValues === 'string' ? [padValues, padValues] : (padValues ?? ['', '']);
  if (data.values instanceof RaggedTensor) return data.withValues(ngrams(data.values, ngramWidth, options));
  const made = raw.stringNGrams(data.values, data.rowSplits, {
    separator: separator ?? ' ',
    ngramWidths: [ngramWidth].flat(),
    leftPad,
    rightPad,
    padWidth: padValues === undefined || padValues === null ? 0 : (paddingWidth ?? -1),
    preserveShortSequences: preserveShortSequences ?? false,
    ...rest,
  });
  return RaggedTensor.fromRowSplits(made.ngrams, made.ngramsSplits as Output<'int64'>);
}

export interface UnicodeOptions extends BuildOptions {
  /** What to do with invalid characters; default: 'replace'. */
  readonly errors?: 'strict' | 'replace' | 'ignore' | null;
  /** The code point for invalid characters; default: 65533. */
  readonly replacementChar?: number | null;
}

/** The code points of each string of a vector: a ragged tensor with a row for each. */
export function unicodeDecode(
  input: Strings,
  inputEncoding = 'UTF-8',
  options: UnicodeOptions = {},
): RaggedTensor<'int32'> {
  const { rowSplits, charValues } = raw.unicodeDecode(input, { inputEncoding, ...options });
  return RaggedTensor.fromRowSplits(charValues, rowSplits as Output<'int64'>);
}

/** The strings with these code points. */
export const unicodeEncode = (
  input: RaggedTensor<'int32'>,
  outputEncoding: 'UTF-8' | 'UTF-16-BE' | 'UTF-32-BE' = 'UTF-8',
  options: UnicodeOptions = {},
): Output<'string'> => raw.unicodeEncode(input.flatValues, input.rowSplits, { outputEncoding, ...options });

/** The characters of each string of a vector: a ragged tensor with a row for each. */
export function unicodeSplit(
  input: Strings,
  inputEncoding: 'UTF-8' | 'UTF-16-BE' | 'UTF-32-BE' = 'UTF-8',
  options: UnicodeOptions = {},
): RaggedTensor<'string'> {
  const points = unicodeDecode(input, inputEncoding, options);
  const count = raw.size(points.flatValues, { outType: 'int64' });
  const one = Tensor.of(1n, { dtype: 'int64' });
  const splits = raw.range(Tensor.of(0n, { dtype: 'int64' }), raw.addV2(count, one), one);
  return points.withValues(raw.unicodeEncode(points.flatValues, splits, { outputEncoding: inputEncoding }));
}
