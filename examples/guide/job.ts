/** The job of the README: fits a line to points. */
import { defineJob, tf } from 'shoal';

export default defineJob({
  name: 'line',
  input: () => {
    const x = tf.randomUniform([100]);
    return { x, y: x.mul(0.1).add(0.3) };
  },
  model({ input }) {
    const w = tf.variable('w', { shape: [1] });
    const b = tf.variable('b', { shape: [1], initializer: tf.zerosInitializer() });
    const y = input.x.mul(w).add(b);
    const loss = tf.losses.meanSquaredError({ labels: input.y, predictions: y });
    return { loss, optimizer: tf.train.adagrad(0.1), outputs: { w, b, y } };
  },
  train: { lastStep: 5_000, checkpoint: { everySecs: 60, keep: 5 } },
  export: {}, // a SavedModel at the end of training: input x, output y
});
