/** A session that is opened while a ps is being lost. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import { GrpcEngine, type GrpcEngineOptions } from '../grpc/grpc-engine.js';
import { ClusterServer } from './cluster-server.js';
import { ClusterSession } from './cluster-session.js';

it('fails with a retryable error', async () => {
  const listener = createServer(() => {}).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  let status = 'alive';
  const ps = '/job:ps/task:0';
  const task = {
    task: '/job:worker/task:0',
    epoch: 1,
    events: { on: () => () => {} },
    // It is alive during the wait, and suspect during the probe.
    waitFor: async () => {
      setImmediate(() => {
        status = 'suspect';
      });
    },
    member: () => ({ task: ps, status, serverAddress: `127.0.0.1:${port}` }),
  };
  const tensorflow = { address: '127.0.0.1:1', target: 'grpc://127.0.0.1:1' };
  const server = Object.create(ClusterServer.prototype, {
    task: { value: task },
    psTasks: { value: [ps] },
    engine: { value: new GrpcEngine({ task, tensorflow, psTasks: [ps] } as unknown as GrpcEngineOptions) },
    keepProcess: { value: () => () => {} },
  }) as ClusterServer;
  const graph = new Graph();
  const one = graph.asDefault(() => constant([1]));
  try {
    await expect(new ClusterSession(server, graph, {}).run(one)).rejects.toMatchObject({
      code: 'SHOAL_TF_UNAVAILABLE',
      message: expect.stringContaining(ps),
    });
  } finally {
    listener.close();
  }
});
