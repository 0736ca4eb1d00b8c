/**
 * How the direct engine divides the training steps of the examples: a changed plan is a readable difference.
 * `npx vitest run test/engines/plans.test.ts -u` writes an intended change.
 */
import { expect, it } from 'vitest';
import line from '../../examples/linear-regression/job.js';
import sparse from '../../examples/sparse-linear/job.js';
import type { JobDefinition } from '../../src/app/job/definition/define-job.js';
import { buildTrainingGraph } from '../../src/app/job/graph/training-graph.js';
import { replicaDeviceSetter } from '../../src/distributed/cluster/spec/device-setter.js';
import { partition } from '../../src/distributed/engine/partition/partition.js';
import { describePlan } from '../../src/distributed/engine/partition/plan.js';
import { PLACEMENT, SELF } from '../../src/distributed/engine/testing/hosts.js';

const PS = 2;

it.each<[string, JobDefinition]>([
  ['linear-regression', line],
  ['sparse-linear', sparse],
])('the training step of %s over two ps', async (name, job) => {
  const device = replicaDeviceSetter({ psTasks: PS, workerDevice: SELF });
  const { graph, loss, stepAfter, shards } = buildTrainingGraph(job, {
    device,
    workerDevice: SELF,
    index: 0,
    count: 1,
  });
  const fetches = [loss, stepAfter, ...(shards ? [shards.position] : [])];
  const plan = partition(graph, { fetches, targets: [], feeds: [] }, PLACEMENT);
  await expect(`${describePlan(plan)}\n`).toMatchFileSnapshot(`plans/${name}.txt`);
});
