/** Wrong columns and features are errors that name them, with a hint where there is something to suggest. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { Graph, tf } from '../../index.js';
import { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';

const {
  bucketizedColumn,
  categoricalColumnWithHashBucket,
  categoricalColumnWithIdentity,
  categoricalColumnWithVocabularyFile,
  categoricalColumnWithVocabularyList,
  crossedColumn,
  embeddingColumn,
  indicatorColumn,
  inputLayer,
  linearModel,
  makeParseExampleSpec,
  numericColumn,
  sharedEmbeddingColumns,
  weightedCategoricalColumn,
} = tf.featureColumn;

const folder = mkdtempSync(join(tmpdir(), 'shoal-columns-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const empty = join(folder, 'empty.txt');
writeFileSync(empty, '');

const age = numericColumn('age');
const words = categoricalColumnWithVocabularyList('words', ['a', 'b']);
const any = (value: unknown) => value as never;

const columns: readonly [string, () => unknown, RegExp, RegExp?][] = [
  [
    'an embedding of numbers',
    () => embeddingColumn(any(age), 3),
    /needs a categorical column; NumericColumn\('age'\)/,
    /bucketizedColumn/,
  ],
  [
    'an indicator of a key',
    () => indicatorColumn(any('words')),
    /categorical column; 'words' is none/,
    /HashBucket/,
  ],
  [
    'boundaries out of order',
    () => bucketizedColumn(age, [1, 3, 2]),
    /'age'.*not sorted: \[1, 3, 2\]/,
    /2 follows 3/,
  ],
  ['equal boundaries', () => bucketizedColumn(age, [1, 1]), /not sorted/],
  ['no boundaries', () => bucketizedColumn(age, []), /at least one boundary/],
  ['buckets of words', () => bucketizedColumn(any(words), [1]), /needs a numeric column; VocabularyColumn/],
  [
    'buckets of a matrix',
    () => bucketizedColumn(numericColumn('m', { shape: [2, 2] }), [1]),
    /shape is \[2, 2\]/,
  ],
  [
    'a missing vocabulary',
    () => categoricalColumnWithVocabularyFile('words', join(folder, 'none.txt')),
    /'words' cannot be read: .*none\.txt/,
    /Every task/,
  ],
  ['an empty vocabulary', () => categoricalColumnWithVocabularyFile('words', empty), /'words' is empty/],
  [
    'a word twice',
    () => categoricalColumnWithVocabularyList('words', ['a', 'b', 'a']),
    /'words' has 'a' twice/,
  ],
  [
    'a mixed vocabulary',
    () => categoricalColumnWithVocabularyList('words', ['a', 1]),
    /strings only, or integers only/,
  ],
  [
    'a vocabulary of another type',
    () => categoricalColumnWithVocabularyList('words', ['a'], { dtype: 'int64' }),
    /has strings; the dtype of the column is int64/,
  ],
  [
    'a default beside buckets',
    () => categoricalColumnWithVocabularyList('w', ['a'], { defaultValue: 0, numOovBuckets: 1 }),
    /both defaultValue and numOovBuckets/,
  ],
  [
    'hash buckets of numbers',
    () => categoricalColumnWithHashBucket('x', 5, { dtype: 'float32' }),
    /'x' has dtype float32/,
    /bucketizedColumn/,
  ],
  [
    'no hash buckets',
    () => categoricalColumnWithHashBucket('x', 0),
    /hashBucketSize must be a positive integer/,
  ],
  ['a default that is no id', () => categoricalColumnWithIdentity('x', 5, { defaultValue: 5 }), /\[0, 5\)/],
  [
    'a cross of hashes',
    () => crossedColumn(['a', categoricalColumnWithHashBucket('b', 5)], 10),
    /hash buckets of 'b'/,
    /key 'b'/,
  ],
  ['a cross of one', () => crossedColumn(['a'], 10), /at least two/],
  [
    'tables of different sizes',
    () => sharedEmbeddingColumns([words, categoricalColumnWithVocabularyList('v', ['a'])], 2),
    /'words' has 2 ids, 'v' has 1/,
  ],
  [
    'tables of different kinds',
    () => sharedEmbeddingColumns([words, categoricalColumnWithIdentity('v', 2)], 2),
    /different kinds/,
  ],
  [
    'half a checkpoint',
    () => embeddingColumn(words, 2, { ckptToLoadFrom: 'x' }),
    /both ckptToLoadFrom and tensorNameInCkpt/,
  ],
  [
    'an unknown combiner',
    () => embeddingColumn(words, 2, { combiner: any('max') }),
    /unknown combiner 'max'/,
  ],
  [
    'an unknown option',
    () => embeddingColumn(words, 2, any({ maxnorm: 2 })),
    /no option 'maxnorm'/,
    /'maxNorm'/,
  ],
  [
    'a default of another shape',
    () => numericColumn('x', { shape: [2], defaultValue: [1, 2, 3] }),
    /3 elements; its shape has 2/,
  ],
  [
    'a fraction as an integer',
    () => numericColumn('x', { dtype: 'int64', defaultValue: 0.5 }),
    /int64; its defaultValue is not/,
  ],
  [
    'a specification of two minds',
    () => makeParseExampleSpec([age, numericColumn('age', { shape: [2] })]),
    /'age' differently/,
  ],
  [
    'a type that no example holds',
    () => makeParseExampleSpec([numericColumn('x', { dtype: 'float64' })]),
    /'x' has dtype float64/,
    /'float32'/,
  ],
  [
    'weights that are ids',
    () => weightedCategoricalColumn(words, 'words').parseSpec(),
    /'words' are a feature/,
  ],
];

test.each(columns)('%s', (_, make, message, hint) => expectInvalid(make, message, hint));

const models: readonly [string, () => unknown, RegExp, RegExp?][] = [
  [
    'an unknown feature',
    () => linearModel({ agee: [1] }, [age]),
    /no feature 'age', which the column 'age' needs/,
    /'agee'/,
  ],
  [
    'a categorical column in an input layer',
    () => inputLayer({}, any([words])),
    /VocabularyColumn\('words'\) is categorical/,
    /embeddingColumn/,
  ],
  [
    'a key as column',
    () => inputLayer({}, any(['age'])),
    /'age' among its columns/,
    /numericColumn\('age'\)/,
  ],
  ['a column twice', () => linearModel({}, [age, numericColumn('age')]), /two columns named 'age'/],
  ['no columns', () => linearModel({}, []), /at least one column/],
  [
    'numbers for words',
    () => linearModel({ words: tf.constant([1, 2], { dtype: 'int64' }) }, [words]),
    /dtype string, the feature is int64/,
    /'int64'/,
  ],
  ['fractions for words', () => linearModel({ words: [0.5] }, [words]), /Feature 'words' has dtype float32/],
  [
    'words for ids',
    () => linearModel({ x: ['a'] }, [categoricalColumnWithIdentity('x', 3)]),
    /must be integers; the feature is string/,
    /vocabulary/,
  ],
  ['words for numbers', () => linearModel({ age: ['a'] }, [age]), /'age' has dtype string/],
  ['sparse numbers', () => linearModel({ age: sparse() }, [age]), /'age' is sparse/, /toDense/],
  [
    'a cross of numbers',
    () => linearModel({ a: [0.5], words: ['a'] }, [crossedColumn(['a', 'words'], 5)]),
    /feature 'a' is float32/,
  ],
  [
    'a cross of weights',
    () =>
      linearModel({ words: ['a'], w: [1], b: ['c'] }, [
        crossedColumn([weightedCategoricalColumn(words, 'w'), 'b'], 5),
      ]),
    /weights cannot be crossed/,
  ],
  [
    'weights of another type',
    () =>
      linearModel({ words: ['a'], w: tf.constant([1], { dtype: 'int64' }) }, [
        weightedCategoricalColumn(words, 'w'),
      ]),
    /are int64; the dtype of the column is float32/,
  ],
  ['a scalar', () => linearModel({ age: 3 }, [age]), /'age' is a scalar/],
  [
    'different batches',
    () => linearModel({ age: [1, 2], x: [1] }, [age, numericColumn('x')]),
    /different sizes: 2 in 'age', 1 in 'x'/,
  ],
];

test.each(models)('%s', (_, make, message, hint) => {
  using graph = new Graph();
  graph.asDefault(() => expectInvalid(make, message, hint));
});

const sparse = () => new SparseTensor({ indices: [[0, 0]], values: [1], denseShape: [1, 1] });

function expectInvalid(make: () => unknown, message: RegExp, hint: RegExp = /^/): void {
  let error: unknown;
  try {
    make();
  } catch (caught) {
    error = caught;
  }
  expect(error).toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT', message: expect.stringMatching(message) });
  expect((error as { hint?: string }).hint ?? '').toMatch(hint);
}
