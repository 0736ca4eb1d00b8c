/** Deterministic synchronous steps: three workers as sessions on one TensorFlow server. */
import { expect, it } from 'vitest';
import { TensorFlowServer } from '../../../distributed/cluster/grpc/tensorflow-server.js';
import { Graph } from '../../graph/graph.js';
import { Session } from '../../session/session.js';
import { createGlobalStep } from '../../variables/global-step.js';
import { variable } from '../../variables/variable-scope.js';
import { GradientDescentOptimizer } from '../rules/gradient-descent.js';
import { SyncReplicasOptimizer } from './sync-replicas.js';

/** Their sum in float32 depends on the order: 0, 1 or 2. */
const GRADIENTS = [1e8, 1, -1e8];

async function cluster() {
  const { target } = await TensorFlowServer.start({ host: '127.0.0.1', port: 0 });
  const parts = GRADIENTS.map((gradient, workerIndex) => {
    const graph = new Graph();
    return graph.asDefault(() => {
      const globalStep = createGlobalStep();
      const w = variable('w', { shape: [], initializer: 0 });
      const optimizer = new SyncReplicasOptimizer(new GradientDescentOptimizer(3), {
        replicasToAggregate: GRADIENTS.length,
        deterministic: true,
        workerIndex,
      });
      const loss = w.toOutput().mul(gradient);
      const trainOp = graph.nameScope(`worker_${workerIndex}`, () =>
        optimizer.minimize(loss, { globalStep }),
      );
      return { graph, globalStep, w, optimizer, trainOp };
    });
  });
  const sessions = await Promise.all(parts.map(({ graph }) => Session.create({ graph, target })));
  const [chief] = parts as [(typeof parts)[0]];
  const [session] = sessions as [Session];
  const { optimizer, globalStep, w } = chief;
  await session.run([globalStep.initializer, w.initializer]);
  await session.run(optimizer.resetOp);
  await session.run(optimizer.initTokensOp);
  for (const [i, part] of parts.entries()) await sessions[i]?.run(part.optimizer.localStepInitOp);
  return {
    /** The worker adds its gradient, with a token of its own. */
    give: async (worker: number) => {
      await session.run(optimizer.topUpOp);
      await sessions[worker]?.run(parts[worker]!.trainOp, { timeoutMs: 20_000 });
    },
    apply: async () => {
      await session.run(optimizer.syncOp, { timeoutMs: 20_000 });
      const [value, step] = await session.run([w, globalStep]);
      return { value: value.number(), step: step.number() };
    },
    /** A worker starts again. */
    restart: (worker: number) => sessions[worker]?.run(parts[worker]!.optimizer.localStepInitOp),
  };
}

it('adds the gradients in the order of the workers, in whichever order they come', async () => {
  for (const order of [
    [0, 1, 2],
    [2, 0, 1],
    [1, 2, 0],
  ]) {
    const { give, apply } = await cluster();
    for (const worker of order) await give(worker);
    expect(await apply()).toEqual({ value: 0, step: 1 });
  }
});

it('takes one gradient of each worker, however often it was computed, and none of a past step', async () => {
  const { give, apply, restart } = await cluster();
  for (const worker of [1, 1, 1, 0, 2]) await give(worker);
  await restart(1);
  await give(1);
  expect(await apply()).toEqual({ value: 0, step: 1 });
  // The local step of worker 0 is still that of its last token.
  for (const worker of [0, 1, 2]) await give(worker);
  for (const worker of [0, 1, 2]) await give(worker);
  expect(await apply()).toEqual({ value: 0, step: 2 });
});

it('refuses fewer gradients than workers', () => {
  const inner = new GradientDescentOptimizer(1);
  const options = { replicasToAggregate: 2, totalNumReplicas: 3, deterministic: true };
  expect(() => new SyncReplicasOptimizer(inner, options)).toThrow(/one gradient of each of the 3 workers/);
});
