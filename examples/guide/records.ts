/** A job whose workers share the records of files. */
import { defineJob, tf } from 'shoal';

const FEATURES = { x: tf.fixedLenFeature([], 'float32'), y: tf.fixedLenFeature([], 'float32') };

export default defineJob({
  name: 'records',
  input: () =>
    tf.data.tfRecord('data/points-*.tfrecord').shuffle(1_000).repeat(2).batch(100).parseExample(FEATURES),
  model({ input }) {
    const w = tf.variable('w', { shape: [1] });
    const b = tf.variable('b', { shape: [1], initializer: tf.zerosInitializer() });
    const y = input.x.mul(w).add(b);
    const loss = tf.losses.meanSquaredError({ labels: input.y, predictions: y });
    return { loss, optimizer: tf.train.adagrad(0.5), outputs: { w, b } };
  },
  train: { lastStep: 1_000_000, checkpoint: { everySecs: 60 } }, // ends with the input
});
