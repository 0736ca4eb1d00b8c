/** A synchronous job whose input depends on the worker and the global step only. */
import { defineJob, tf } from 'shoal';

const { DETERMINISTIC_STEPS = '0' } = process.env;
const POINTS = Array.from({ length: 64 }, (_, i) => (i * 0.6180339887) % 1);

export default defineJob({
  name: 'deterministic',
  seed: 7,
  input: ({ index }) => {
    const step = tf.cast(tf.train.getOrCreateGlobalStep().toOutput(), 'float32');
    // Other points at each step, which differ between the workers.
    const x = tf
      .constant(POINTS)
      .add(step.mul(0.37).add(index * 0.21))
      .mod(1);
    return { x, y: x.mul(0.1).add(0.3) };
  },
  model({ input: { x, y } }) {
    const w = tf.newVariable(tf.randomUniform([1], -1, 1), { name: 'W' });
    const b = tf.newVariable(tf.zeros([1]), { name: 'b' });
    const loss = x.mul(w).add(b).sub(y).square().mean();
    return { loss, optimizer: tf.train.adagrad(0.1) };
  },
  train: {
    lastStep: Number(DETERMINISTIC_STEPS),
    sync: { deterministic: true },
    logEverySecs: 0.1,
    checkpoint: { everySecs: 0.5, keep: 2 },
  },
});
