/** The program of scenario 000, in the style of TensorFlow 1, with a separate directory for each task. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import * as tf from '../../../src/app/tf/index.js';
import { describeError } from '../../../src/base/errors/errors.js';
import { resolveConfig } from '../../../src/distributed/cluster/spec/config.js';
import { replicaDeviceSetter } from '../../../src/distributed/cluster/spec/device-setter.js';
import { parseTaskId } from '../../../src/distributed/cluster/spec/task-id.js';
import { Graph } from '../../../src/tensorflow/graph/graph.js';
import { SyncReplicasOptimizer } from '../../../src/tensorflow/optimizers/sync/sync-replicas.js';
import {
  MonitoredTrainingSession,
  StopAtStepHook,
  SyncReplicasHook,
} from '../../../src/training/train/index.js';
import { configured, Server } from '../../../src/training/train/task/server.js';

const log = (line: string) => console.log(line);
const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('no cluster is configured: pass flags or set TF_CONFIG');
const { job, index } = parseTaskId(config.task);
const home = join(process.env.TASKS_ROOT as string, `${job}-${index}`);
mkdirSync(home, { recursive: true });
process.chdir(home);
const stop = new AbortController();
process.on('SIGINT', () => stop.abort('SIGINT'));

const server = await Server.open({
  ...configured(config),
  blobRoot: join(home, 'blobs'),
  onNotice: log,
});
log(`up as ${config.task}`);

async function train(task: string): Promise<void> {
  const graph = new Graph();
  const device = replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
  const inner = tf.train.adagrad(0.5);
  const sync = process.env.SYNC
    ? new SyncReplicasOptimizer(inner, { replicasToAggregate: 2, workerDevice: task })
    : undefined;
  const { trainOp, globalStep, loss, w, b } = graph.asDefault(() =>
    graph.device(device, () => {
      const x = tf.constant(Array.from({ length: 100 }, (_, i) => i / 100));
      const y = x.mul(0.1).add(0.3);
      const globalStep = tf.getOrCreateGlobalStep();
      const w = tf.variable('W', { shape: [1], initializer: tf.randomUniformInitializer(-1, 1) });
      const b = tf.variable('b', { shape: [1], initializer: [0] });
      const loss = x.mul(w).add(b).sub(y).square().mean();
      const trainOp = (sync ?? inner).minimize(loss, { globalStep });
      return { trainOp, globalStep, loss, w, b };
    }),
  );
  let loggedAt = 0;
  await MonitoredTrainingSession(
    {
      graph,
      server,
      checkpointDir: './train_logs',
      saveCheckpointSecs: 1,
      onRecovery: ({ step, lost, restored }) =>
        log(`event: lost ${lost}, restored step ${restored?.step}, continues at ${step}`),
      hooks: [
        ...(sync ? [new SyncReplicasHook(sync, { isChief: server.isChief })] : []),
        new StopAtStepHook({ lastStep: Number(process.env.LAST_STEP) }),
      ],
      signal: stop.signal,
      log,
    },
    async (session) => {
      while (!session.shouldStop()) {
        const [, step, lossNow, wNow, bNow] = await session.run([trainOp, globalStep, loss, w, b]);
        if (Date.now() - loggedAt < 200) continue;
        loggedAt = Date.now();
        log(`step ${step.number()} loss ${lossNow.number()} W ${wNow.toArray()} b ${bNow.toArray()}`);
      }
    },
  );
  log('trained');
}

try {
  if (job === 'ps') await new Promise((resolve) => process.on('SIGTERM', resolve));
  else await train(config.task);
  await server.close();
  process.exitCode = 0;
} catch (error) {
  log(`failed: ${describeError(error)}`);
  process.exitCode = 1;
}
process.exit();
