/** Vocabulary tables, as TensorFlow 1's `tf.contrib.lookup`: words to ids and back, from a list or a file. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { currentGraph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { asOutput, constantIn, isOutputLike, type Operand } from '../ops/build.js';
import * as raw from '../ops/generated/index.js';
import type { DType } from '../tensor/dtype.js';
import { Tensor } from '../tensor/tensor.js';
import { GraphKeys } from '../variables/collections.js';
import { IdTableWithHashBuckets, type LookupTable, StaticHashTable } from './table.js';

/** What to use as key or value: the complete line, its number, or a column (from 0). */
export const TextFileIndex = { wholeLine: -2, lineNumber: -1 } as const;

/** A path, or a scalar string tensor. A constant path becomes an asset of exports. */
export type VocabularyFile = string | Output<'string'>;

export interface FileOptions {
  /** The number of lines to use. Default: all. */
  readonly vocabSize?: number;
  /** The column of the keys; default: `TextFileIndex.wholeLine`, of a string table `TextFileIndex.lineNumber`. */
  readonly keyColumnIndex?: number;
  /** The column of the values; default: `TextFileIndex.lineNumber`, of a string table `TextFileIndex.wholeLine`. */
  readonly valueColumnIndex?: number;
  /** The character between columns; default: a tab. */
  readonly delimiter?: string;
  /** The name scope of the ops; default: `string_to_index` or `index_to_string`. */
  readonly name?: string;
}

export interface IdOptions {
  /** The id of words outside the vocabulary. Default: -1. Not used with `numOovBuckets`. */
  readonly defaultValue?: number | bigint;
  /** The number of extra ids for words outside the vocabulary, chosen by hash. Default: 0. */
  readonly numOovBuckets?: number;
}

export interface IndexTableOptions extends IdOptions {
  /** The dtype of the vocabulary. Default: string for words, int64 for numbers. */
  readonly dtype?: DType;
  /** The name scope of the ops; default: `string_to_index`. */
  readonly name?: string;
}

/** Maps the words of a list to their positions. */
export function indexTableFromTensor(
  vocabularyList: Operand,
  given: OrNull<IndexTableOptions> = {},
): LookupTable<'int64'> {
  const options = withoutNull<IndexTableOptions>(given);
  const { name = 'string_to_index', ...ids } = options;
  return named(name, () => {
    const given = vocabularyOf(vocabularyList, options.dtype);
    const isText = given.dtype === 'string';
    const keys = isText || given.dtype === 'int64' ? given : raw.cast(given, { dstT: 'int64' });
    return idTable(isText ? 'string' : 'int64', ids, (handle) =>
      raw.initializeTableV2(handle, keys, positionsOf(keys), { name: 'table_init' }),
    );
  });
}

/** Maps the words of a file to their line numbers. `keyDtype` is the dtype of the words; default: 'string'. */
export function indexTableFromFile(
  vocabularyFile: VocabularyFile,
  given: OrNull<FileOptions & IdOptions & { readonly keyDtype?: 'string' | 'int64' }> = {},
): LookupTable<'int64'> {
  const options = withoutNull<FileOptions & IdOptions & { readonly keyDtype?: 'string' | 'int64' }>(given);
  const { keyColumnIndex = TextFileIndex.wholeLine, valueColumnIndex = TextFileIndex.lineNumber } = options;
  return named(options.name ?? 'string_to_index', () =>
    idTable(options.keyDtype ?? 'string', options, (handle) =>
      initializeFromFile(handle, vocabularyFile, options, keyColumnIndex, valueColumnIndex),
    ),
  );
}

export interface StringOptions {
  /** The word for ids outside the vocabulary. Default: `UNK`. */
  readonly defaultValue?: string;
}

/** Maps positions in a list to its words. */
export function indexToStringTableFromTensor(
  vocabularyList: Operand,
  given: OrNull<StringOptions & { readonly name?: string }> = {},
): LookupTable<'string'> {
  const options = withoutNull<StringOptions & { readonly name?: string }>(given);
  return named(options.name ?? 'index_to_string', () => {
    const values = vocabularyOf(vocabularyList, 'string');
    return stringTable(options, (handle) =>
      raw.initializeTableV2(handle, positionsOf(values), values, { name: 'table_init' }),
    );
  });
}

/** Maps line numbers of a file to the words on those lines. */
export function indexToStringTableFromFile(
  vocabularyFile: VocabularyFile,
  given: OrNull<FileOptions & StringOptions> = {},
): LookupTable<'string'> {
  const options = withoutNull<FileOptions & StringOptions>(given);
  const { keyColumnIndex = TextFileIndex.lineNumber, valueColumnIndex = TextFileIndex.wholeLine } = options;
  return named(options.name ?? 'index_to_string', () =>
    stringTable(options, (handle) =>
      initializeFromFile(handle, vocabularyFile, options, keyColumnIndex, valueColumnIndex),
    ),
  );
}

type Initialize = (handle: Output<'resource'>) => Operation;

function idTable(
  keyDtype: DType,
  { defaultValue = -1, numOovBuckets = 0 }: IdOptions,
  initialize: Initialize,
): LookupTable<'int64'> {
  if (!Number.isSafeInteger(numOovBuckets) || numOovBuckets < 0)
    throw invalid(`numOovBuckets must be a non-negative integer; got ${numOovBuckets}`);
  const hasBuckets = numOovBuckets > 0;
  const table = new StaticHashTable({
    keyDtype,
    valueDtype: 'int64',
    defaultValue: hasBuckets ? -1 : defaultValue,
    initialize,
  });
  return hasBuckets ? new IdTableWithHashBuckets(table, numOovBuckets) : table;
}

function stringTable({ defaultValue = 'UNK' }: StringOptions, initialize: Initialize): LookupTable<'string'> {
  return new StaticHashTable({ keyDtype: 'int64', valueDtype: 'string', defaultValue, initialize });
}

function initializeFromFile(
  handle: Output<'resource'>,
  vocabularyFile: VocabularyFile,
  { vocabSize, delimiter = '\t' }: FileOptions,
  keyIndex: number,
  valueIndex: number,
): Operation {
  if (vocabularyFile === '')
    throw invalid('vocabularyFile must not be empty: pass the path of a vocabulary file');
  const graph = handle.graph;
  const isPath = typeof vocabularyFile === 'string';
  const filename = isPath
    ? constantIn(graph, vocabularyFile, 'string', { name: 'asset_filepath' })
    : asOutput(vocabularyFile, 'string');
  if (filename.op.type === 'Const') graph.addToCollection(GraphKeys.assetFilepaths, filename);
  return raw.initializeTableFromTextFileV2(handle, filename as Output<'string'>, {
    keyIndex,
    valueIndex,
    vocabSize: vocabSize ?? -1,
    delimiter,
    name: 'table_init',
  });
}

/** Runs `body` in a new name scope under the caller's. */
function named<T>(name: string, body: () => T): T {
  const graph = currentGraph();
  return graph.controlDependencies(null, () => graph.nameScope(name, body));
}

function vocabularyOf(list: Operand, dtype: DType | undefined): Output {
  if (Array.isArray(list) && list.length === 0) throw invalid('vocabularyList must not be empty');
  if (isOutputLike(list) || list instanceof Tensor) {
    const output = asOutput(list);
    if (dtype === 'string' && output.dtype !== 'string')
      throw invalid(`Expected a vocabulary of strings; got ${output}`);
    return output;
  }
  const isNumbers = Array.isArray(list) && typeof list[0] === 'number';
  return asOutput(list, dtype ?? (isNumbers ? 'int64' : undefined));
}

function positionsOf(vocabulary: Output): Output {
  const count = vocabulary.shape?.[0];
  if (vocabulary.shape?.length === 1 && typeof count === 'number') {
    const positions = BigInt64Array.from({ length: count }, (_, i) => BigInt(i));
    return constantIn(vocabulary.graph, Tensor.of(positions), 'int64', { name: 'positions' });
  }
  const size = raw.cast(raw.size(vocabulary), { dstT: 'int64' });
  const of = (value: number) => Tensor.of(value, { dtype: 'int64' });
  return raw.range(of(0), size, of(1));
}
