/** A convolutional network that tells bars from crosses in small images; the program draws them. */
import { defineJob, tf } from 'shoal';

const SIZE = 8;
const { layers } = tf.keras;

export const model = new tf.keras.Sequential(
  [
    tf.keras.Input({ shape: [SIZE, SIZE, 1] }),
    layers.conv2d(8, 3, { padding: 'same', activation: 'relu' }),
    layers.maxPooling2d(),
    layers.separableConv2d(16, 3, { padding: 'same', activation: 'relu' }),
    layers.globalMaxPooling2d(),
    layers.dropout(0.1),
    layers.dense(3, { activation: 'softmax' }),
  ],
  { seed: 1 },
).compile({ optimizer: tf.train.adam(0.01), loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] });

/** Classes: 0 a horizontal bar, 1 a vertical bar, 2 both. */
const images = () => {
  const count = 64;
  const y = tf.randomUniform([count], 0, 3, { dtype: 'int32' });
  const line = (axis: 1 | 2) => {
    const place = tf.oneHot(tf.randomUniform([count], 0, SIZE, { dtype: 'int32' }), SIZE);
    return tf.expandDims(place, axis === 1 ? 2 : 1);
  };
  const shows = (other: number) => tf.cast(tf.notEqual(y, other), 'float32').reshape([-1, 1, 1]);
  const lines = line(1)
    .mul(shows(1))
    .add(line(2).mul(shows(0)));
  const noise = tf.randomNormal([count, SIZE, SIZE], 0, 0.1);
  return { x: lines.add(noise).reshape([count, SIZE, SIZE, 1]), y };
};

export default defineJob(
  model.toJob({
    name: 'cnn',
    input: images,
    train: { lastStep: 300, checkpoint: { everySecs: 60 } },
    evaluate: { batches: 10 },
    export: {},
  }),
);
