/** A job with parameters, callbacks, an evaluation and more options. */
import { defineJob, tf } from 'shoal';

const points = () => {
  const x = tf.randomUniform([100]);
  return { x, y: x.mul(0.1).add(0.3) };
};

export default defineJob({
  name: 'options',
  // #region params
  params: { rate: 0.1 }, // shoal run options.ts --set rate=0.05
  input: points,
  model({ input, params }) {
    const w = tf.variable('w', { shape: [1] });
    const b = tf.variable('b', { shape: [1], initializer: tf.zerosInitializer() });
    const y = input.x.mul(w).add(b);
    const loss = tf.losses.meanSquaredError({ labels: input.y, predictions: y });
    return { loss, optimizer: tf.train.adagrad(params.rate), outputs: { w, b, y } };
  },
  // #endregion
  // #region train
  train: {
    lastStep: 2_000,
    checkpoint: { everySecs: 60, keep: 3, replicas: 1 },
    earlyStopping: { metric: 'eval/error', patience: 5, restoreBest: true },
    summaries: { everySteps: 100 }, // for TensorBoard, in the chief's directory
    onNan: 'fail',
  },
  callbacks: {
    onSave: ({ step, path }) => console.log(`step ${step} is in ${path}`),
    onRecover: ({ step }) => console.log(`training continues at step ${step}`),
  },
  // #endregion
  // #region evaluate
  evaluate: {
    input: points,
    metrics: ({ input, outputs }) => ({ error: tf.metrics.meanSquaredError(input.y, outputs.y) }),
    batches: 10,
  },
  export: { everySteps: 1_000, latest: 3, best: { metric: 'error', mode: 'min' } },
  // #endregion
});
