/**
 * Fits a line to points, on a cluster: two variables, spread over the ps.
 *
 *   npx shoal run examples/linear-regression/job.ts --ps 2 --workers 3 -- --steps 20000
 */
import { parseArgs } from 'node:util';
import { defineJob, tf } from 'shoal';

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '50000' },
    rate: { type: 'string', default: '0.01' },
    'save-secs': { type: 'string', default: '60' },
  },
});

export default defineJob({
  name: 'linear-regression',
  input: () => {
    const x = Float32Array.from({ length: 100 }, () => Math.random());
    return { x: tf.constant(x), y: tf.constant(x.map((point) => 0.1 * point + 0.3)) };
  },
  model({ input: { x, y } }) {
    const w = tf.variable('W', { shape: [1], initializer: tf.randomUniformInitializer(-1, 1) });
    const b = tf.variable('b', { shape: [1], initializer: tf.zerosInitializer() });
    const predicted = w.mul(x).add(b);
    const loss = tf.losses.meanSquared(y, predicted);
    return { loss, optimizer: tf.train.adagrad(Number(values.rate)), outputs: { W: w, b, y: predicted } };
  },
  train: {
    lastStep: Number(values.steps),
    checkpoint: { everySecs: Number(values['save-secs']), keep: 3 },
  },
  // At the end: a SavedModel that takes x and returns y.
  export: {},
});
