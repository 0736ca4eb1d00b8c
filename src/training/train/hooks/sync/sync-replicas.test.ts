/** Synchronous training of two replicas in one process: two monitored sessions on one TensorFlow server. */
import { describe, expect, it } from 'vitest';
import { TensorFlowServer } from '../../../../distributed/cluster/grpc/tensorflow-server.js';
import { Graph } from '../../../../tensorflow/graph/graph.js';
import { constant } from '../../../../tensorflow/ops/creation.js';
import { GradientDescentOptimizer } from '../../../../tensorflow/optimizers/rules/gradient-descent.js';
import { SyncReplicasOptimizer } from '../../../../tensorflow/optimizers/sync/sync-replicas.js';
import { createGlobalStep } from '../../../../tensorflow/variables/global-step.js';
import { variable } from '../../../../tensorflow/variables/variable-scope.js';
import { MonitoredTrainingSession } from '../../sessions/monitored-training-session.js';
import { StopAtStepHook } from '../stop-at-step.js';
import { SyncReplicasHook } from './sync-replicas.js';

const STEPS = 6;
const TARGETS = [1, 3];

/** A replica that pulls `w` to its own target. */
function replica(index: number) {
  const target = TARGETS[index] as number;
  const graph = new Graph();
  return graph.asDefault(() => {
    const globalStep = createGlobalStep();
    const w = variable('w', { shape: [], initializer: 0 });
    const loss = w.toOutput().sub(constant(target)).square();
    const optimizer = new SyncReplicasOptimizer(new GradientDescentOptimizer(0.1), {
      replicasToAggregate: 2,
      workerIndex: index,
    });
    const trainOp = graph.nameScope(`replica_${target}`, () => optimizer.minimize(loss, { globalStep }));
    return { graph, w, optimizer, trainOp };
  });
}

describe('SyncReplicasHook', () => {
  it('trains like one process on the combined batch', async () => {
    const { target: master } = await TensorFlowServer.start({ host: '127.0.0.1', port: 0 });
    const train = async (index: number) => {
      const { graph, optimizer, trainOp, w } = replica(index);
      const isChief = index === 0;
      let steps = 0;
      const value = await MonitoredTrainingSession(
        {
          graph,
          master,
          isChief,
          maxWaitSecs: 120,
          hooks: [new SyncReplicasHook(optimizer, { isChief }), new StopAtStepHook({ lastStep: STEPS })],
          log: () => {},
        },
        async (session) => {
          while (!session.shouldStop()) {
            await session.run(trainOp);
            steps += 1;
          }
          return (await session.rawSession.run(w)).number();
        },
      );
      return { steps, value };
    };
    const [chief, other] = await Promise.all([train(0), train(1)]);
    expect([chief?.steps, other?.steps]).toEqual([STEPS, STEPS]);
    let expected = 0;
    for (let step = 0; step < STEPS; step++) {
      const gradients = TARGETS.map((target) => 2 * (expected - target));
      expected -= (0.1 * ((gradients[0] as number) + (gradients[1] as number))) / 2;
    }
    expect(chief?.value).toBeCloseTo(expected, 5);
    expect(other?.value).toBeCloseTo(expected, 5);
  });
});
