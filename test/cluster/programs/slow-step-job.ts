/** A job whose steps sleep SLOW_STEP_MS on the worker, without using the processor. */
import { defineJob, tf } from 'shoal';
import { slowInput } from './slow-input.js';

const { SLOW_STEP_MS = '0', SLOW_STEPS = '1', SLOW_STEP_TIMEOUT_SECS } = process.env;

export default defineJob({
  name: 'slow',
  input: () => slowInput(SLOW_STEP_MS),
  model({ input }) {
    const w = tf.variable('w', { shape: [], initializer: 0 });
    return { loss: w.mul(input.x).neg(), optimizer: tf.train.sgd(1), outputs: { w } };
  },
  train: {
    lastStep: Number(SLOW_STEPS),
    logEverySecs: 0.1,
    checkpoint: { everySecs: 5 },
    ...(SLOW_STEP_TIMEOUT_SECS ? { stepTimeoutSecs: Number(SLOW_STEP_TIMEOUT_SECS) } : {}),
  },
});
