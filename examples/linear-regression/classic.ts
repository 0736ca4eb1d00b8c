/**
 * Fits a line to points with the API of TensorFlow 1: one program, started once for every task of the cluster.
 *
 *   node --import tsx examples/linear-regression/classic.ts --job_name=ps --task_index=0 \
 *     --ps_hosts=127.0.0.1:2220,127.0.0.1:2221 --worker_hosts=127.0.0.1:2230,127.0.0.1:2231,127.0.0.1:2232
 */
import { parseArgs } from 'node:util';
import { tf } from 'shoal';
import { MonitoredTrainingSession, Saver, Scaffold, Server, StopAtStepHook } from 'shoal/train';
import { reportFailure } from '../report-failure.js';

// 1. Flags
const { values: FLAGS } = parseArgs({
  options: {
    ps_hosts: { type: 'string', default: '' },
    worker_hosts: { type: 'string', default: '' },
    job_name: { type: 'string', default: 'worker' },
    task_index: { type: 'string', default: '0' },
    last_step: { type: 'string', default: '50000' },
    checkpoint_dir: { type: 'string', default: './train_logs' },
    save_secs: { type: 'string', default: '600' },
    store: { type: 'string', default: 'peers:' },
  },
  strict: false,
  allowPositionals: true,
}) as { values: Record<string, string> };

// 2. The server of this task
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort(signal));

const server = await Server.start({ log: console.log }).catch(reportFailure);
if (FLAGS.job_name === 'ps') {
  await server.join({ signal: stop.signal, log: console.log });
} else {
  await train().catch((error: unknown) => {
    // A signal before the first step makes the start fail.
    if (!stop.signal.aborted) throw error;
  });
}
// The program ends here: the task leaves the cluster by itself.

// 3. Devices: the variables are on the ps, in turn
async function train(): Promise<void> {
  const device = tf.replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
  const { trainOp, globalStep, loss, W, b } = tf.device(device, () => {
    // 4. Points on a line
    const xData = tf.constant(Array.from({ length: 100 }, (_, i) => (i * 0.6180339887) % 1));
    const yData = xData.mul(0.1).add(0.3);
    // 5. The model and its loss
    const W = tf.newVariable(tf.randomUniform([1], -1, 1), { name: 'W' });
    const b = tf.newVariable(tf.zeros([1]), { name: 'b' });
    const y = W.mul(xData).add(b);
    const loss = tf.mean(tf.square(y.sub(yData)));
    // 6. The training op
    const globalStep = tf.getOrCreateGlobalStep();
    const trainOp = tf.train.adagrad(0.01).minimize(loss, { globalStep });
    return { trainOp, globalStep, loss, W, b };
  });

  // 7. A session that restores, saves and recovers
  const hooks = [new StopAtStepHook({ lastStep: Number(FLAGS.last_step) })];
  let shown = 0;
  await MonitoredTrainingSession(
    {
      server,
      isChief: FLAGS.task_index === '0',
      checkpointDir: FLAGS.checkpoint_dir,
      // 0: no checkpoints.
      saveCheckpointSecs: Number(FLAGS.save_secs) || null,
      scaffold: new Scaffold({ saver: new Saver({ store: FLAGS.store, log: console.log }) }),
      hooks,
      signal: stop.signal,
      log: console.log,
    },
    // 8. The loop
    async (sess) => {
      while (!sess.shouldStop()) {
        const [, step, lossNow, w, bias] = await sess.run([trainOp, globalStep, loss, W, b]);
        if (Date.now() - shown < 1000) continue;
        shown = Date.now();
        console.log(
          `step ${step.number()} loss ${lossNow.number().toPrecision(4)} W ${w.toArray()} b ${bias.toArray()}`,
        );
      }
    },
  );
}
