// One task of the recovery benchmark: scenario 000's job, with a checkpoint every second. A worker prints the first step
// after its start and after each recovery, with the time.
import { resolveConfig } from '../../dist/cluster/index.js';
import { describeError } from '../../dist/errors/errors.js';
import { defineJob, tf } from '../../dist/index.js';
import { runTask } from '../../dist/job/run-task.js';

const { directory } = JSON.parse(process.env.BENCH);
const POINTS = Array.from({ length: 100 }, (_, i) => (i * 0.6180339887) % 1);

let isFirst = true;
const job = defineJob({
  name: 'recovery',
  input: () => {
    const x = tf.constant(POINTS);
    return { x, y: x.mul(0.1).add(0.3) };
  },
  model({ input: { x, y } }) {
    const w = tf.newVariable(tf.randomUniform([1], -1, 1), { name: 'W' });
    const b = tf.newVariable(tf.zeros([1]), { name: 'b' });
    return { loss: x.mul(w).add(b).sub(y).square().mean(), optimizer: tf.train.adagrad(0.01) };
  },
  train: { lastStep: 1e9, logEverySecs: 1, checkpoint: { everySecs: 1, keep: 3 } },
  callbacks: {
    onRecover() {
      isFirst = true;
    },
    onStep({ step }) {
      if (!isFirst) return;
      isFirst = false;
      console.log(`first step ${step} ${performance.timeOrigin + performance.now()}`);
    },
  },
});

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
const { signal } = new AbortController();
try {
  process.exitCode = await runTask(job, { config, dir: directory, signal, log: (line) => console.log(line) });
} catch (error) {
  console.log(`failed: ${describeError(error)}`);
  process.exitCode = 1;
}
process.exit();
