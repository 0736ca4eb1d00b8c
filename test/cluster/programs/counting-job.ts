/**
 * Every step adds one to `a` and to `b`, which are on different ps; `b` is with the global step. Steps take
 * COUNTING_STEP_MS. COUNTING_TRAIN is JSON with further train options.
 */
import { defineJob, tf } from 'shoal';
import { slowInput } from './slow-input.js';

const { COUNTING_STEP_MS = '20', COUNTING_STEPS = '100', COUNTING_TRAIN = '{}' } = process.env;

export default defineJob({
  name: 'counting',
  input: () => slowInput(COUNTING_STEP_MS),
  model({ input }) {
    const a = tf.variable('a', { shape: [], initializer: 0 });
    const b = tf.variable('b', { shape: [], initializer: 0 });
    return { loss: a.add(b).mul(input.x).neg(), optimizer: tf.train.sgd(1), outputs: { a, b } };
  },
  train: { lastStep: Number(COUNTING_STEPS), logEverySecs: 0.2, ...JSON.parse(COUNTING_TRAIN) },
  callbacks: { onRecover: (event) => console.log(`recovered: ${JSON.stringify(event)}`) },
});
