/**
 * One task of the stress test: a worker keeps several steps in flight for a number of minutes or up to a global step,
 * finishes them, and logs their number; the chief waits for the others and logs the global step. Every task logs the
 * number of its native handles.
 */

import { buildTrainingGraph } from '../../src/app/job/graph/training-graph.js';
import { runTask } from '../../src/app/job/running/run-task.js';
import { describeError } from '../../src/base/errors/errors.js';
import { ClusterServer } from '../../src/distributed/cluster/runtime/cluster-server.js';
import { resolveConfig } from '../../src/distributed/cluster/spec/config.js';
import { replicaDeviceSetter } from '../../src/distributed/cluster/spec/device-setter.js';
import { parseTaskId } from '../../src/distributed/cluster/spec/task-id.js';
import { liveHandles } from '../../src/tensorflow/native/handle.js';
import { RecoverableSession } from '../../src/training/train/recovery/recoverable-session.js';
import { configured } from '../../src/training/train/task/server.js';
import job from './linear-regression.js';

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('no cluster: pass flags or set TF_CONFIG');
/** The global step at which workers stop; 0: they stop after LAB_SECONDS. */
const lastStep = Number(process.env.LAB_STEPS ?? 0);
const seconds = Number(process.env.LAB_SECONDS ?? 60);
const inflight = Number(process.env.LAB_INFLIGHT ?? 4);
const log = (line: string) => console.log(`${Date.now()} ${line}`);

async function work(): Promise<void> {
  if (config.mode !== 'cluster') return;
  const server = await ClusterServer.create({ ...configured(config), onNotice: log });
  log(`agent at ${server.task.agentAddress}, ${server.engine.description}, pid ${process.pid}`);
  const device = replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: config.task });
  const { index } = parseTaskId(config.task);
  const { graph, stepAfter, loss, globalStep } = buildTrainingGraph(job, { device, index, count: 3 });
  const cluster = server.session(graph, { onProgress: log });
  const session = new RecoverableSession({
    runner: cluster,
    graph,
    isChief: server.isChief,
    stepMs: 120_000,
    log,
  });
  await session.ready();
  const until = performance.now() + seconds * 1000;
  let own = 0;
  let reached = 0;
  let slowest = 0;
  let lastLog = performance.now();
  const isOver = () => (lastStep > 0 ? reached >= lastStep : performance.now() >= until);
  const runSteps = async () => {
    while (!isOver()) {
      const begun = performance.now();
      const [step] = await session.run([stepAfter, loss]);
      own += 1;
      reached = Math.max(reached, step.number());
      slowest = Math.max(slowest, performance.now() - begun);
      if (performance.now() - lastLog < 1000) continue;
      lastLog = performance.now();
      log(`global step ${reached}; ${own} steps ran here`);
    }
  };
  await Promise.all(Array.from({ length: inflight }, runSteps));
  log(`ran ${own} steps, the slowest in ${slowest.toFixed(0)} ms, recovered ${session.recoveries} times`);
  if (server.isChief) {
    const isBusy = ({ task, status }: { task: string; status: string }) =>
      parseTaskId(task).job === 'worker' && task !== config.task && status !== 'left';
    await server.task.waitFor((members) => members.filter(isBusy).map(({ task }) => task), {
      timeoutMs: 300_000,
    });
    log(`the global step is ${(await session.run(globalStep)).number()}`);
  }
  await cluster.close();
  await server.close();
}

setInterval(() => log(`${liveHandles().total} native handles`), 1000).unref();
try {
  if (parseTaskId(config.task).job === 'ps') {
    const signal = new AbortController().signal;
    process.exitCode = await runTask(job, { config, dir: process.cwd(), signal, log });
  } else await work();
} catch (error) {
  log(`failed: ${describeError(error)}`);
  process.exitCode = 1;
}
process.exit();
