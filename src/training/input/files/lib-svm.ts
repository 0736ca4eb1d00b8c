/** LibSVM files: a line is a label and `index:value` pairs; `#` begins a comment, qid is ignored. */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { gather, reshape, slice } from '../../../tensorflow/ops/arrays.js';
import { asOutput } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Dataset } from '../dataset/dataset.js';
import type { ParallelOptions } from '../dataset/recipe.js';
import {
  type FileReadOptions,
  type FileSource,
  linesOfRange,
  recipeOf,
  textLines,
  withRecipe,
} from './files.js';
import { scanLines } from './text-scan.js';

export interface LibSvmOptions extends FileReadOptions, ParallelOptions {
  /** The number of features: the size of the sparse tensor. */
  readonly features: number;
  /** Whether feature indices begin at 1, as in LibSVM; default: false, they begin at 0. */
  readonly oneBased?: boolean;
}

export interface LibSvmRow {
  readonly label: Output<'float32'>;
  /** [features], float32 */
  readonly features: SparseTensor<'float32'>;
}

export function libSvm(source: FileSource, given: OrNull<LibSvmOptions>): Dataset<LibSvmRow> {
  const options = withoutNull<LibSvmOptions>(given);
  const { features, oneBased = false } = options;
  if (!Number.isSafeInteger(features) || features < 1)
    throw invalid(`features must be an integer of at least 1; got ${features}`);
  const rowsOf = (lines: Dataset<Output<'string'>>) =>
    lines
      .map((line) => raw.regexReplace(line, '#.*|\\bqid:\\S+', ''))
      .filter((line) => raw.regexFullMatch(line, '.*\\S.*'))
      .map((line) => parseLine(line, features, oneBased), {
        parallel: options.parallel,
        deterministic: options.deterministic,
      }) as unknown as Dataset<LibSvmRow>;
  const recipe = recipeOf(source, {
    read: (range) => rowsOf(linesOfRange(range, options)),
    scan: (file, scan) =>
      scanLines(file, { ...scan, compression: options.compression, isRecord: (line) => !isBlank(line) }),
  });
  return withRecipe(rowsOf(textLines(source, options)), recipe);
}

/** Equals the filter of rows above, on bytes as latin1 characters. */
const isBlank = (line: string): boolean =>
  !/[^\t\f\r ]/.test(line.replace(/\r/g, '').replace(/#.*|\bqid:[^\t\f\r ]+/g, ''));

function parseLine(line: Output<'string'>, features: number, oneBased: boolean): LibSvmRow {
  const vector = reshape(line, [1]);
  const words = raw.stringSplitV2(vector, '').values;
  const pairs = slice(words, [1], [-1]);
  const parts = reshape(raw.stringSplitV2(pairs, ':').values, [-1, 2]);
  const column = (at: number) =>
    gather(parts, Tensor.of(at, { dtype: 'int32' }), { axis: 1 }) as Output<'string'>;
  const read = raw.stringToNumber(column(0), { outType: 'int64' });
  const indices = oneBased ? raw.sub(read, Tensor.of(1n)) : read;
  return {
    label: raw.stringToNumber(gather(words, Tensor.of(0, { dtype: 'int32' })), {
      outType: 'float32',
    }) as Output<'float32'>,
    features: new SparseTensor<'float32'>({
      indices: reshape(indices, [-1, 1]) as Output<'int64'>,
      values: raw.stringToNumber(column(1), { outType: 'float32' }),
      denseShape: asOutput(Tensor.of(BigInt64Array.of(BigInt(features)))) as Output<'int64'>,
    }),
  };
}
