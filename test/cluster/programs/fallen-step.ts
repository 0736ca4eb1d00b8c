/**
 * The chief trains, as a job or with one of the sessions of TensorFlow 1 (API). Worker 1 does not train: on SIGUSR2 it sets
 * the global step to 0, as a process of an earlier run may do.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { defineJob } from '../../../src/app/job/definition/define-job.js';
import { runTask } from '../../../src/app/job/running/run-task.js';
import * as tf from '../../../src/app/tf/index.js';
import { sleep } from '../../../src/base/async/deadline.js';
import { describeError } from '../../../src/base/errors/errors.js';
import { resolveConfig } from '../../../src/distributed/cluster/spec/config.js';
import { replicaDeviceSetter } from '../../../src/distributed/cluster/spec/device-setter.js';
import { parseTaskId } from '../../../src/distributed/cluster/spec/task-id.js';
import { Graph } from '../../../src/tensorflow/graph/graph.js';
import type { Runner } from '../../../src/tensorflow/session/runner.js';
import { MonitoredTrainingSession, SessionRunHook, Supervisor } from '../../../src/training/train/index.js';
import { configured, Server } from '../../../src/training/train/task/server.js';

const { API, TASKS_ROOT } = process.env;
const LAST_STEP = 1e9;
const STEP_MS = 10;
const log = (line: string) => console.log(line);
const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('no cluster is configured: pass flags or set TF_CONFIG');
const { job: role, index } = parseTaskId(config.task);
const home = join(TASKS_ROOT as string, `${role}-${index}`);
mkdirSync(home, { recursive: true });
process.chdir(home);
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort(signal));

const lossOf = () =>
  tf
    .variable('W', { shape: [1], initializer: [1] })
    .toOutput()
    .square()
    .mean();

class Slow extends SessionRunHook {
  override afterRun(): Promise<void> {
    return sleep(STEP_MS);
  }
}

const job = defineJob({
  name: 'fallen',
  input: () => ({ x: tf.constant([0]) }),
  model: () => ({ loss: lossOf(), optimizer: tf.train.sgd(0.001) }),
  train: {
    lastStep: LAST_STEP,
    logEverySecs: 0.2,
    checkpoint: { everySecs: 0.5, keep: 2 },
  },
  hooks: () => [new Slow()],
});

async function trainWithSession(server: Server): Promise<void> {
  const graph = new Graph();
  const device = replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
  const { trainOp, globalStep } = graph.asDefault(() =>
    graph.device(device, () => {
      const globalStep = tf.getOrCreateGlobalStep();
      return { globalStep, trainOp: tf.train.sgd(0.001).minimize(lossOf(), { globalStep }) };
    }),
  );
  const { signal } = stop;
  const step = async (session: Runner) => {
    const [, now] = await session.run([trainOp, globalStep]);
    if (now.number() % 50 === 0) log(`step ${now.number()} of ${LAST_STEP}`);
    await sleep(STEP_MS);
  };
  if (API === 'supervisor') {
    const supervisor = new Supervisor({ graph, logdir: './logs', saveModelSecs: 0.5, signal, log });
    await supervisor.managedSession(server, async (session) => {
      while (!supervisor.shouldStop()) await step(session);
    });
    return;
  }
  await MonitoredTrainingSession(
    { graph, server, checkpointDir: './logs', saveCheckpointSecs: 0.5, signal, log },
    async (session) => {
      while (!session.shouldStop()) await step(session);
    },
  );
}

async function resetOnSignal(server: Server): Promise<void> {
  const graph = new Graph();
  const globalStep = graph.asDefault(() => graph.device('/job:ps/task:0', () => tf.getOrCreateGlobalStep()));
  const reset = graph.asDefault(() => globalStep.assign(0n));
  const session = server.session(graph);
  process.on('SIGUSR2', () => void session.run(reset).then(() => log('the step is set to 0')));
  log('ready');
  await new Promise((resolve) => stop.signal.addEventListener('abort', resolve, { once: true }));
}

try {
  const isCulprit = role === 'worker' && index === 1;
  if (API === 'job' && !isCulprit) {
    process.exitCode = await runTask(job, { config, dir: home, signal: stop.signal, log });
  } else {
    const server = await Server.open({ ...configured(config), blobRoot: join(home, 'blobs'), onNotice: log });
    if (isCulprit) await resetOnSignal(server);
    else if (role === 'worker') await trainWithSession(server);
    else await new Promise((resolve) => stop.signal.addEventListener('abort', resolve, { once: true }));
    await server.close();
  }
} catch (error) {
  log(`failed: ${describeError(error)}`);
  process.exitCode = 1;
}
process.exit();
