/** The columns of the click model, and the model: a linear part that remembers, and a deep one that generalizes. */
import { tf } from 'shoal';

const fc = tf.featureColumn;

// #region columns
/** `vocabulary`: the path of the file with the interests. */
export function columns(vocabulary: string) {
  const age = fc.numericColumn('age', { normalizerFn: (x) => x.sub(45).div(20) });
  const ages = fc.bucketizedColumn(fc.numericColumn('age'), [18, 25, 30, 40, 50, 65]);
  const city = fc.categoricalColumnWithHashBucket('city', 500);
  const occupation = fc.categoricalColumnWithVocabularyList('occupation', [
    ...['student', 'farmer', 'teacher', 'nurse', 'driver', 'retired'],
  ]);
  const interests = fc.weightedCategoricalColumn(
    fc.categoricalColumnWithVocabularyFile('interests', vocabulary, { numOovBuckets: 5 }),
    'interest_weights',
  );
  return {
    wide: [ages, city, occupation, interests, fc.crossedColumn(['city', ages], 5000)],
    deep: [
      age,
      fc.indicatorColumn(occupation),
      fc.embeddingColumn(city, 8),
      fc.embeddingColumn(interests, 16, { combiner: 'sum' }),
    ],
  };
}

export type Columns = ReturnType<typeof columns>;

/** How examples are parsed: for training with the label, for serving without. */
export const examplesOf = ({ wide, deep }: Columns) => fc.makeParseExampleSpec([...wide, ...deep]);
// #endregion

// #region model
/** The logits. Tables are split over `parts` ps. */
export function logits(features: tf.featureColumn.FeatureValues, { wide, deep }: Columns, parts: number) {
  const partitioner = tf.fixedSizePartitioner(parts);
  const linear = tf.variableScope('wide', () => fc.linearModel(features, wide), { partitioner });
  const hidden = tf.variableScope('deep', () => {
    const input = tf.variableScope('input', () => fc.inputLayer(features, deep), { partitioner });
    return [32, 16].reduce((x, units) => tf.layers.dense(x, units, { activation: 'relu' }), input);
  });
  return linear.add(tf.variableScope('deep', () => tf.layers.dense(hidden, 1, { name: 'logits' })));
}
// #endregion
