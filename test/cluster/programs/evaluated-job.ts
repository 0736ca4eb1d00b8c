/** Linear regression that is saved often and evaluated by an evaluator, on points that are not used for training. */
import { defineJob, tf } from 'shoal';

const points = (offset: number) => Array.from({ length: 20 }, (_, i) => ((i + offset) % 20) / 20);
const line = (x: readonly number[]) => x.map((value) => 0.1 * value + 0.3);
const { LAST_STEP = 2000, EVERY_STEPS, EXPORT } = process.env;

export default defineJob({
  name: 'evaluated',
  input: () => {
    const x = points(0);
    return { x: tf.constant(x), y: tf.constant(line(x)) };
  },
  model({ input: { x, y } }) {
    const w = tf.variable('w', { shape: [1], initializer: [-1] });
    const b = tf.variable('b', { shape: [1], initializer: [0] });
    const predicted = w.mul(x).add(b);
    return {
      loss: predicted.sub(y).square().mean(),
      optimizer: tf.train.adagrad(0.1),
      outputs: { predicted },
    };
  },
  evaluate: {
    input: () => {
      const x = points(0.5);
      return tf.data.fromTensorSlices({ x, y: line(x) }).batch(8);
    },
    metrics: ({ input: { y }, loss, outputs: { predicted } }) => ({
      loss: tf.metrics.mean(loss.toOutput()),
      error: tf.metrics.mean(tf.abs(predicted.toOutput().sub(y))),
    }),
    pollSecs: 0.2,
    best: { metric: 'error', mode: 'min', keep: 1 },
  },
  train: {
    lastStep: Number(LAST_STEP),
    checkpoint: EVERY_STEPS ? { everySteps: Number(EVERY_STEPS), keep: 2 } : { everySecs: 1, keep: 2 },
    logEverySecs: 1,
  },
  ...(EXPORT ? { export: { everySteps: 100, latest: 2, best: { metric: 'error', mode: 'min' } } } : {}),
});
