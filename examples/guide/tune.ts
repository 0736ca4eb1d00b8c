// Trains a job with several values of a parameter and keeps the best one. A trial whose loss is more than twice the best
// one after half of its steps is stopped.
import { defineJob, runInProcess, tf } from 'shoal';

const job = defineJob({
  name: 'tuned',
  params: { rate: 0.1 },
  model({ params }) {
    const w = tf.variable('w', { shape: [], initializer: 5 });
    const loss = w.sub(3).square();
    return { loss, optimizer: tf.train.sgd(params.rate), outputs: { w } };
  },
  train: { lastStep: 50, logEverySecs: 0.1 },
});

let best = { rate: Number.NaN, loss: Number.POSITIVE_INFINITY };
for (const rate of [0.001, 0.01, 0.1]) {
  const stop = new AbortController();
  const { loss = Number.POSITIVE_INFINITY, step } = await runInProcess(
    { ...job, params: { ...job.params, rate } },
    {
      dir: `tuned/rate-${rate}`,
      signal: stop.signal,
      onEvent: (event) => {
        if (event.event === 'step' && event.step > 25 && event.loss > 2 * best.loss) stop.abort();
      },
    },
  );
  console.log(`rate ${rate}: loss ${loss.toPrecision(3)} after ${step} steps`);
  if (loss < best.loss) best = { rate, loss };
}
console.log(`best rate: ${best.rate}`);
