/** Models of feature columns that this library and Python TensorFlow build from the same description. */

/** A call of a function of `tf.featureColumn`; arguments may be other calls. */
export interface ColumnCall {
  readonly call: string;
  readonly args: readonly unknown[];
  readonly options?: Readonly<Record<string, unknown>>;
}

export interface FeatureSpec {
  readonly dtype: 'float32' | 'int64' | 'string';
  readonly values: readonly unknown[];
  readonly indices?: readonly (readonly number[])[];
  readonly denseShape?: readonly number[];
}

export interface ColumnCase {
  readonly title: string;
  readonly model: 'inputLayer' | 'linearModel';
  readonly columns: readonly ColumnCall[];
  readonly features: Readonly<Record<string, FeatureSpec>>;
  readonly options?: Readonly<Record<string, unknown>>;
  /** The variable scopes in which the model is built, one after the other; their results are joined. Default: none. */
  readonly scopes?: readonly string[];
  /** The number of partitions of the variables; default: not partitioned. */
  readonly partitions?: number;
}

const call = (
  name: string,
  args: readonly unknown[],
  options?: Readonly<Record<string, unknown>>,
): ColumnCall => ({
  call: name,
  args,
  ...(options ? { options } : {}),
});

const FEATURES = {
  age: { dtype: 'float32', values: [18, 30.5, 64] },
  point: {
    dtype: 'float32',
    values: [
      [0.5, 2],
      [1, -3],
      [7, 0],
    ],
  },
  visits: { dtype: 'int64', values: [[3], [0], [12]] },
  words: {
    dtype: 'string',
    values: ['red', 'teal', 'red', 'blue', 'pink'],
    indices: [
      [0, 0],
      [0, 1],
      [0, 2],
      [2, 0],
      [2, 1],
    ],
    denseShape: [3, 3],
  },
  other: {
    dtype: 'string',
    values: [
      ['blue', ''],
      ['green', 'none'],
      ['', ''],
    ],
  },
  ids: {
    dtype: 'int64',
    values: [
      [1, 4, -1],
      [9, -1, -1],
      [0, 0, 2],
    ],
  },
  amount: {
    dtype: 'float32',
    values: [0.5, 2, -1, 3, 0.25],
    indices: [
      [0, 0],
      [0, 1],
      [0, 2],
      [2, 0],
      [2, 1],
    ],
    denseShape: [3, 3],
  },
} as const satisfies Record<string, FeatureSpec>;

const pick = (...keys: (keyof typeof FEATURES)[]): ColumnCase['features'] =>
  Object.fromEntries(keys.map((key) => [key, FEATURES[key]]));

const COLORS = ['red', 'green', 'blue'];
const age = call('numericColumn', ['age']);
const point = call('numericColumn', ['point'], { shape: [2], defaultValue: 0.5 });
const decades = call('bucketizedColumn', [age, [18, 25, 40]]);
const hashed = call('categoricalColumnWithHashBucket', ['words', 50]);
const listed = call('categoricalColumnWithVocabularyList', ['words', COLORS]);
const other = call('categoricalColumnWithVocabularyList', ['other', COLORS]);
const identity = call('categoricalColumnWithIdentity', ['ids', 10]);
const weighted = call('weightedCategoricalColumn', [listed, 'amount']);
const embedded = (column: ColumnCall, dimension: number, options?: Readonly<Record<string, unknown>>) =>
  call('embeddingColumn', [column, dimension], options);
const cross = (keys: readonly unknown[], size: number, options?: Readonly<Record<string, unknown>>) =>
  call('crossedColumn', [keys, size], options);

/** `vocabulary`: the path of a file with the words of COLORS and one more. */
export const columnCases = (vocabulary: string): readonly ColumnCase[] => {
  const filed = (options?: Readonly<Record<string, unknown>>) =>
    call('categoricalColumnWithVocabularyFile', ['words', vocabulary], options);
  const input = (
    title: string,
    columns: readonly ColumnCall[],
    features: ColumnCase['features'],
    more = {},
  ) => ({
    title,
    model: 'inputLayer' as const,
    columns,
    features,
    ...more,
  });
  const linear = (
    title: string,
    columns: readonly ColumnCall[],
    features: ColumnCase['features'],
    more = {},
  ) => ({
    title,
    model: 'linearModel' as const,
    columns,
    features,
    ...more,
  });
  return [
    input(
      'numbers, with shapes, defaults, other types and a normalizer',
      [
        point,
        call('numericColumn', ['age'], { normalizerFn: 'log1p', defaultValue: 3 }),
        call('numericColumn', ['visits'], { dtype: 'int64', defaultValue: [7] }),
      ],
      pick('age', 'point', 'visits'),
    ),
    linear('numbers, several units', [point, age], pick('age', 'point'), { options: { units: 3 } }),
    input('buckets of a vector', [call('bucketizedColumn', [point, [0, 1]])], pick('point')),
    linear('buckets of a vector', [call('bucketizedColumn', [point, [0, 1]]), decades], pick('point', 'age')),
    input('embedding of hashed words, mean', [embedded(hashed, 4)], pick('words')),
    linear(
      'hashed words and integers',
      [hashed, call('categoricalColumnWithHashBucket', ['ids', 7], { dtype: 'int64' })],
      pick('words', 'ids'),
    ),
    input(
      'vocabulary list with buckets for other words, sqrtn',
      [
        embedded(call('categoricalColumnWithVocabularyList', ['words', COLORS], { numOovBuckets: 4 }), 3, {
          combiner: 'sqrtn',
        }),
      ],
      pick('words'),
    ),
    input(
      'vocabulary list with a default, sum, a largest norm',
      [
        embedded(call('categoricalColumnWithVocabularyList', ['words', COLORS], { defaultValue: 1 }), 3, {
          combiner: 'sum',
          maxNorm: 0.4,
        }),
      ],
      pick('words'),
    ),
    linear(
      'vocabulary of integers, mean',
      [call('categoricalColumnWithVocabularyList', ['ids', [4, 0, 9]])],
      pick('ids'),
      {
        options: { sparseCombiner: 'mean' },
      },
    ),
    linear('vocabulary file', [filed(), other], pick('words', 'other')),
    input(
      'vocabulary file of given size, with buckets',
      [call('indicatorColumn', [filed({ vocabularySize: 2, numOovBuckets: 3 })])],
      pick('words'),
    ),
    input(
      'indicator of ids, with a default',
      [call('indicatorColumn', [call('categoricalColumnWithIdentity', ['ids', 5], { defaultValue: 3 })])],
      pick('ids'),
    ),
    input('indicator of weights', [call('indicatorColumn', [weighted])], pick('words', 'amount')),
    linear(
      'identity and crosses of words, buckets and ids',
      [identity, cross(['words', decades, 'other'], 40), cross([identity, 'words'], 30, { hashKey: 7 })],
      pick('ids', 'words', 'other', 'age'),
    ),
    input(
      'embedding of a cross of a cross',
      [embedded(cross([cross(['words', 'other'], 10), listed], 25), 2, { combiner: 'sum' })],
      pick('words', 'other'),
    ),
    linear('weights', [weighted], pick('words', 'amount')),
    linear('weights, sqrtn', [weighted], pick('words', 'amount'), {
      options: { sparseCombiner: 'sqrtn', units: 2 },
    }),
    input('embedding of weights, mean', [embedded(weighted, 3)], pick('words', 'amount')),
    input(
      'embedding of weights, without the safe lookup',
      [
        embedded(
          call('weightedCategoricalColumn', [
            call('categoricalColumnWithVocabularyList', ['words', COLORS], { defaultValue: 2 }),
            'amount',
          ]),
          3,
          { combiner: 'sum', useSafeEmbeddingLookup: false },
        ),
      ],
      pick('words', 'amount'),
    ),
    input(
      'a shared table, and one that is not trained',
      [
        call('sharedEmbeddingColumns', [[other, listed], 3], { combiner: 'sum' }),
        embedded(identity, 2, { trainable: false }),
      ],
      pick('other', 'words', 'ids'),
    ),
    input(
      'a shared table with a name, partitioned',
      [call('sharedEmbeddingColumns', [[listed, other], 2], { sharedEmbeddingCollectionName: 'colors' })],
      pick('other', 'words'),
      { scopes: ['deep'], partitions: 2 },
    ),
    linear('an embedding within a linear model', [embedded(hashed, 3), age], pick('words', 'age')),
    linear(
      'a linear model of all kinds, partitioned in a scope',
      [hashed, decades, age, point, cross(['words', 'other'], 33)],
      pick('words', 'other', 'age', 'point'),
      {
        scopes: ['linear'],
        partitions: 3,
        options: { units: 2 },
      },
    ),
    input(
      'a deep input, partitioned in a scope',
      [embedded(hashed, 4), call('indicatorColumn', [other]), embedded(decades, 2), age],
      pick('words', 'other', 'age'),
      {
        scopes: ['dnn/input_from_feature_columns'],
        partitions: 4,
      },
    ),
    linear('two linear models', [listed, age], pick('words', 'age'), { scopes: ['', ''] }),
    input('two inputs', [embedded(listed, 2), age], pick('words', 'age'), { scopes: ['', ''] }),
    linear(
      'a linear model twice in one scope, with the same variables',
      [listed, age],
      pick('words', 'age'),
      {
        scopes: ['shared', 'shared'],
      },
    ),
    linear('not trained', [listed, embedded(identity, 2)], pick('words', 'ids'), {
      options: { trainable: false },
    }),
  ];
};
