/** Trains a job on a real cluster of 2 ps and 2 workers within this process, and tells the loss of every step. */

import { Server } from '../../src/cluster/runtime/server.js';
import { ClusterSpec } from '../../src/cluster/spec/cluster-spec.js';
import { replicaDeviceSetter } from '../../src/cluster/spec/device-setter.js';
import { taskId } from '../../src/cluster/spec/task-id.js';
import type { JobDefinition } from '../../src/job/define-job.js';
import { choosePorts } from '../../src/job/launcher/ports.js';
import { leadSync } from '../../src/job/lead-sync.js';
import { buildTrainingGraph, type TrainingGraph } from '../../src/job/training-graph.js';
import { RecoverableSession } from '../../src/train/recovery/recoverable-session.js';

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

/** Each worker makes `steps` steps; in synchronous training they are parts of the same ones. */
export async function trainOnCluster(job: JobDefinition, steps: number): Promise<Trained> {
  const addresses = (await choosePorts('127.0.0.1', PS + WORKERS)).map((port) => `127.0.0.1:${port}`);
  const spec = new ClusterSpec({ ps: addresses.slice(0, PS), worker: addresses.slice(PS) });
  const start = (name: string, index: number) =>
    Server.start({ spec, self: taskId(name, index), security: { kind: 'none' } });
  const servers: Server[] = [];
  try {
    for (let i = 0; i < PS; i++) servers.push(await start('ps', i));
    const workers: Server[] = [];
    for (let i = 0; i < WORKERS; i++) {
      const worker = await start('worker', i);
      servers.push(worker);
      workers.push(worker);
    }
    // The chief alone knows the first values; all begin when it has them.
    let begin: (values: Trained['first']) => void = () => {};
    const begun = new Promise<Trained['first']>((resolve) => {
      begin = resolve;
    });
    const inOrder: number[] = [];
    const meet = meeting(workers.length);
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
      await using _lead = await leadSync(server, session, parts, () => {});
      const losses: number[] = [];
      for (let i = 0; i < steps; i++) {
        const { loss } = await session.run({ loss: parts.loss, step: parts.stepAfter });
        losses.push(loss.number());
        // A worker that is fast might give a second gradient to a step before the other is heard of.
        if (parts.sync) await meet();
        inOrder.push(loss.number());
      }
      return { losses, last: await outputs(session, parts) };
    }
  } finally {
    await Promise.all(servers.map((server) => server.close()));
  }
}

/** Each call resolves when as many as told have called. */
function meeting(count: number): () => Promise<void> {
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
