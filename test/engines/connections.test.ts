/** Connections of the direct engine between two tasks. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ClusterServer } from '../../src/distributed/cluster/runtime/cluster-server.js';
import { taskId } from '../../src/distributed/cluster/spec/task-id.js';
import { tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import type { Output } from '../../src/tensorflow/graph/operation.js';
import { EngineCluster, ON_CLUSTER } from './engine-cluster.js';

let cluster: EngineCluster;
beforeAll(async () => {
  cluster = await EngineCluster.start('direct');
});
afterAll(() => cluster.close());

it('a second connection of a task ends the runs of the first, which take nothing any more', async () => {
  const graph = new Graph();
  const { enqueue, dequeue } = graph.asDefault(() =>
    tf.device(ON_CLUSTER.ps[1], () => {
      const queue = tf.train.fifoQueue({ capacity: 2, dtypes: ['float32'], shapes: [[]] });
      return { enqueue: queue.enqueue([7]), dequeue: queue.dequeue()[0] as Output };
    }),
  );
  const [first, second] = cluster.workers as [ClusterServer, ClusterServer];
  await using session = cluster.session(graph);
  const ended = session.run(dequeue).then(
    () => 'took an element',
    (error: { code: string; message: string }) => error,
  );
  // Runs on one connection arrive in order: the ps has the first one when it answers the second.
  await session.run(graph.asDefault(() => tf.device(ON_CLUSTER.ps[1], () => tf.constant(1).add(1))));
  const ps = taskId('ps', 1);
  const other = await second.task.openStream(ps, 'stages', { timeoutMs: 10_000 });
  const again = await first.task.openStream(ps, 'stages', { timeoutMs: 10_000 });
  expect(await ended).toMatchObject({
    code: 'SHOAL_TF_UNAVAILABLE',
    message: expect.stringContaining('/job:ps/task:1'),
  });
  await session.run(enqueue);
  expect((await session.run(dequeue)).item()).toBe(7);
  // The session has connected again, which ends the connection of the test; that of another task continues.
  await expect.poll(() => again.socket.destroyed).toBe(true);
  expect(other.socket.destroyed).toBe(false);
  other.socket.destroy();
});
