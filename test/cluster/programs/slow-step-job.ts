/** A job whose steps sleep SLOW_STEP_MS on the worker, without using the processor. */
import { defineJob, tf } from '../../../src/index.js';
import * as raw from '../../../src/ops/generated/index.js';
import { Tensor } from '../../../src/tensor/tensor.js';

const { SLOW_STEP_MS = '0', SLOW_STEPS = '1', SLOW_STEP_TIMEOUT_SECS } = process.env;
const types = { outputTypes: ['float32'], outputShapes: [[]] } as const;

export default defineJob({
  name: 'slow',
  input: () => {
    const pause = Tensor.of(BigInt(SLOW_STEP_MS) * 1000n);
    const late = raw.sleepDataset(tf.data.fromTensors(tf.constant(1)).variant, pause, types);
    return { x: raw.datasetToSingleElement(late, types)[0] as ReturnType<typeof tf.constant> };
  },
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
