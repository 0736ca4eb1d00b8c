/** An LSTM classifier of sequences of words of different lengths: does one word occur before the other? */
import { defineJob, type Output, tf } from 'shoal';

const [WORDS, LENGTH] = [12, 10];
const { layers } = tf.keras;

// #region model
export const model = new tf.keras.Sequential(
  [
    tf.keras.Input({ shape: [LENGTH], dtype: 'int32' }),
    layers.embedding(WORDS, 8, { maskZero: true }),
    layers.bidirectional(layers.lstm(16)),
    layers.dense(1, { activation: 'sigmoid' }),
  ],
  { seed: 1 },
).compile({ optimizer: tf.train.adam(0.01), loss: 'binaryCrossentropy', metrics: ['accuracy', 'auc'] });

// #endregion
/** Words 1 and 2 occur once each, at random places; 0 is no word. */
const sequences = () => {
  const count = 64;
  const others = tf.randomUniform([count, LENGTH], 3, WORDS, { dtype: 'int32' });
  const first = tf.randomUniform([count, 1], 0, LENGTH, { dtype: 'int32' });
  const distance = tf.randomUniform([count, 1], 1, LENGTH, { dtype: 'int32' });
  const second = tf.floormod(first.add(distance), LENGTH);
  const places: Output = tf.constant([Array.from({ length: LENGTH }, (_, i) => i)], { dtype: 'int32' });
  const is = (place: Output) => tf.cast(tf.equal(places, place), 'int32');
  const others1 = others.mul(is(first).add(is(second)).neg().add(1));
  const words = others1.add(is(first)).add(is(second).mul(2));
  // Nothing is known after the later of both.
  const ends = tf.maximum(first, second);
  const x = words.mul(tf.cast(tf.lessEqual(places, ends), 'int32'));
  return { x, y: tf.cast(tf.less(first, second), 'float32') };
};

export default defineJob(
  model.toJob({
    name: 'lstm',
    input: sequences,
    train: { lastStep: 300, checkpoint: { everySecs: 60 } },
    evaluate: { batches: 10 },
    export: {},
  }),
);
