/** Trains synchronously and exports, without checkpoints. */
import { defineJob, tf } from 'shoal';

export default defineJob({
  name: 'sync-export',
  input: () => ({ x: tf.ones([4]) }),
  model({ input: { x } }) {
    const w = tf.variable('w', { shape: [], initializer: 0 });
    const y = x.mul(w);
    return { loss: tf.neg(w), optimizer: tf.train.sgd(1), outputs: { y } };
  },
  train: { lastStep: 100, sync: true },
  export: { everySteps: 40 },
});
