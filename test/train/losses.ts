/** Trains a job on a real cluster of 2 ps and 2 workers in this process, and returns the loss of every step. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JobDefinition } from '../../src/app/job/definition/define-job.js';
import { buildTrainingGraph, type TrainingGraph } from '../../src/app/job/graph/training-graph.js';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { ClusterSpec } from '../../src/distributed/cluster/spec/cluster-spec.js';
import type { EngineKind } from '../../src/distributed/cluster/spec/config.js';
import { replicaDeviceSetter } from '../../src/distributed/cluster/spec/device-setter.js';
import { taskId } from '../../src/distributed/cluster/spec/task-id.js';
import { SyncReplicasHook } from '../../src/training/train/hooks/sync/sync-replicas.js';
import { Coordinator } from '../../src/training/train/recovery/coordinator.js';
import { RecoverableSession } from '../../src/training/train/recovery/recoverable-session.js';
import { Server } from '../../src/training/train/task/server.js';
import type { TrainingRunner } from '../../src/training/train/task/training-runner.js';

export const [PS, WORKERS] = [2, 2];

export interface Trained {
  /** Of each worker, step by step. */
  readonly losses: readonly (readonly number[])[];
  /** Of all workers, in the order in which the steps ended. */
  readonly inOrder: readonly number[];
  /** The outputs of the model before the first step and after the last. */
  readonly first: Readonly<Record<string, unknown>>;
  readonly last: Readonly<Record<string, unknown>>;
}

/** Each worker makes `steps` steps; in synchronous training the workers share each step. */
export async function trainOnCluster(
  job: JobDefinition,
  steps: number,
  engine: EngineKind,
): Promise<Trained> {
  const addresses = (await choosePorts('127.0.0.1', PS + WORKERS)).map((port) => `127.0.0.1:${port}`);
  const spec = new ClusterSpec({ ps: addresses.slice(0, PS), worker: addresses.slice(PS) });
  const directory = await mkdtemp(join(tmpdir(), 'shoal-losses-'));
  const start = (name: string, index: number) =>
    Server.open({
      spec,
      self: taskId(name, index),
      security: { kind: 'none' },
      engine,
      blobRoot: join(directory, `${name}-${index}`),
    });
  const servers: Server[] = [];
  try {
    for (let i = 0; i < PS; i++) servers.push(await start('ps', i));
    const workers: Server[] = [];
    for (let i = 0; i < WORKERS; i++) {
      const worker = await start('worker', i);
      servers.push(worker);
      workers.push(worker);
    }
    // Only the chief reads the initial values; all start after that.
    let begin: (values: Trained['first']) => void = () => {};
    const begun = new Promise<Trained['first']>((resolve) => {
      begin = resolve;
    });
    const inOrder: number[] = [];
    const meet = barrier(workers.length);
    const runs = workers.map((server, index) => train(server, index));
    const done = await Promise.all(runs);
    const losses = done.map((worker) => worker.losses);
    return { losses, inOrder, first: await begun, last: done[0]?.last ?? {} };

    async function train(server: Server, index: number) {
      const workerDevice = taskId('worker', index);
      const device = replicaDeviceSetter({ psTasks: PS, workerDevice });
      const parts = buildTrainingGraph(job, { device, workerDevice, index, count: WORKERS });
      await using cluster = server.session(parts.graph);
      const { localInit } = parts;
      const session = new RecoverableSession({
        runner: cluster,
        graph: parts.graph,
        isChief: index === 0,
        stepMs: 120_000,
        ...(localInit ? { localInit: async () => void (await cluster.run(localInit)) } : {}),
      });
      await session.ready();
      if (index === 0) begin(await outputs(session, parts));
      await begun;
      const coordinator = new Coordinator();
      const sync = parts.sync && new SyncReplicasHook(parts.sync, { isChief: index === 0 });
      const runner = { graph: parts.graph, server, run: cluster.run.bind(cluster) } as TrainingRunner;
      await sync?.afterCreateSession(runner, coordinator);
      const losses: number[] = [];
      for (let i = 0; i < steps; i++) {
        const { loss } = await session.run({ loss: parts.loss, step: parts.stepAfter });
        losses.push(loss.number());
        // A fast worker might send a second gradient for a step before the other has sent its first.
        if (parts.sync) await meet();
        inOrder.push(loss.number());
      }
      const last = await outputs(session, parts);
      await sync?.end(runner);
      coordinator.requestStop();
      await coordinator.join();
      return { losses, last };
    }
  } finally {
    await Promise.all(servers.map((server) => server.close()));
    await rm(directory, { recursive: true, force: true });
  }
}

/** Each call resolves when `count` callers have arrived. */
function barrier(count: number): () => Promise<void> {
  let waiting: (() => void)[] = [];
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      if (waiting.length < count) return;
      for (const go of waiting) go();
      waiting = [];
    });
}

async function outputs(session: RecoverableSession, parts: TrainingGraph) {
  const values = await session.runUngated(parts.outputs);
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.toArray()]));
}
