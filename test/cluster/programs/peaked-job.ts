/** Each step adds 1 to a variable, and the score of the evaluation is best at PEAK: it ends by early stopping. */
import { defineJob, tf } from 'shoal';

const { PEAK = '150', LAST_STEP = '100000', EVAL_MS = '20', METRIC = 'score', SYNC } = process.env;
const sleep = (ms: number) => new Promise<void>((wake) => setTimeout(wake, ms));

async function* records() {
  for (let i = 0; i < 10; i++) {
    await sleep(Number(EVAL_MS));
    yield { x: 1 };
  }
}

const slowRecords = () => tf.data.generator(records, { element: { x: { dtype: 'float32' } } }).batch(1);

export default defineJob({
  name: 'peaked',
  input: () => ({ x: tf.constant([1]) }),
  model({ input: { x } }) {
    const a = tf.variable('a', { initializer: 0 });
    const b = tf.variable('b', { initializer: 0 });
    return {
      loss: a.add(b).neg().add(x.sum().mul(0)),
      optimizer: tf.train.sgd(1),
      outputs: { a, b, y: x.mul(0).add(a) },
    };
  },
  evaluate: {
    input: () => slowRecords() as never,
    metrics: ({ outputs: { y } }) => ({
      score: tf.metrics.mean(y.sub(Number(PEAK)).square().neg()),
    }),
    pollSecs: 0.2,
  },
  hooks: () => [{ afterRun: () => sleep(30) }],
  train: {
    lastStep: Number(LAST_STEP),
    sync: SYNC !== undefined,
    checkpoint: { everySteps: 15, keep: 2 },
    earlyStopping: { metric: `eval/${METRIC}`, mode: 'max', patience: 4, restoreBest: true },
    reduceLearningRate: { metric: 'eval/score', mode: 'max', patience: 3, factor: 0.5 },
    logEverySecs: 1,
  },
  export: {},
});
