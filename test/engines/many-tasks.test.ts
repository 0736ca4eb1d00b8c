/** A cluster of 8 ps and 8 workers: every step of every worker is counted once, on every ps. */
import { describe, expect, it } from 'vitest';
import { replicaDeviceSetter } from '../../src/distributed/cluster/spec/device-setter.js';
import { taskId } from '../../src/distributed/cluster/spec/task-id.js';
import { tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { ENGINES, EngineCluster, plain } from './engine-cluster.js';

const [PS, WORKERS, STEPS] = [8, 8, 40];

describe.each(ENGINES)('engine %s', (engine) => {
  it(`${PS} ps and ${WORKERS} workers count ${WORKERS * STEPS} steps`, async () => {
    const cluster = await EngineCluster.start(engine, { ps: PS, workers: WORKERS });
    const workers = Array.from({ length: WORKERS }, (_, index) => {
      const graph = new Graph();
      const device = replicaDeviceSetter({ psTasks: PS, workerDevice: taskId('worker', index) });
      const parts = graph.asDefault(() =>
        tf.device(device, () => {
          const globalStep = tf.getOrCreateGlobalStep();
          // One more variable than ps: the global step is on the first.
          const counts = Array.from({ length: PS }, (_, at) =>
            tf.variable(`count${at}`, { shape: [2], initializer: [0, 0] }),
          );
          const loss = tf.addN(counts.map((one) => one.sum())).neg();
          const trainOp = tf.train.sgd(1, { useLocking: true }).minimize(loss, { globalStep });
          return { globalStep, counts, trainOp, init: tf.globalVariablesInitializer() };
        }),
      );
      return { session: cluster.session(graph, index), ...parts };
    });
    const [chief] = workers as [(typeof workers)[number]];
    await chief.session.run(chief.init);
    await Promise.all(
      workers.map(async ({ session, trainOp }) => {
        for (let step = 0; step < STEPS; step++) await session.run(trainOp);
      }),
    );
    const { globalStep, counts } = chief;
    const devices = new Set(counts.map(({ handle }) => handle.op.device));
    expect(devices.size).toBe(PS);
    const total = WORKERS * STEPS;
    expect(plain(await chief.session.run({ globalStep, counts }))).toEqual({
      globalStep: BigInt(total),
      counts: counts.map(() => [total, total]),
    });
    await Promise.all(workers.map(({ session }) => session.close()));
    await cluster.close();
  });
});
