/** Scenario 000's model, for experiments; the environment sets the last step. */
import { defineJob, tf } from '../../src/index.js';

const lastStep = Number(process.env.LAB_LAST_STEP ?? 2000);
const inflight = Number(process.env.LAB_INFLIGHT ?? 1);

/** A hundred points between 0 and 1, the same ones on every task: multiples of the golden ratio, modulo 1. */
const POINTS = Array.from({ length: 100 }, (_, i) => (i * 0.6180339887) % 1);

export default defineJob({
  name: 'linear-regression',
  seed: 7,
  input: () => {
    const x = tf.constant(POINTS);
    return { x, y: x.mul(0.1).add(0.3) };
  },
  model({ input }) {
    const w = tf.newVariable(tf.randomUniform([1], -1, 1), { name: 'W' });
    const b = tf.newVariable(tf.zeros([1]), { name: 'b' });
    const { x, y } = input;
    const loss = x.mul(w).add(b).sub(y).square().mean();
    return { loss, optimizer: tf.train.adagrad(0.01), outputs: { W: w, b } };
  },
  train: { lastStep, inflight, logEverySecs: 1 },
});
