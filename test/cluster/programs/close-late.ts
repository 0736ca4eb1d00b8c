/** An idle worker that closes its session on SIGUSR2, and logs when it is closed. */
import { once } from 'node:events';
import { ClusterServer } from '../../../src/distributed/cluster/runtime/cluster-server.js';
import { engineOf, resolveConfig } from '../../../src/distributed/cluster/spec/config.js';
import { replicaDeviceSetter } from '../../../src/distributed/cluster/spec/device-setter.js';
import { Graph, tf } from '../../../src/index.js';

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('no cluster is configured: pass flags');
const server = await ClusterServer.create({
  spec: config.spec,
  self: config.task,
  security: { kind: 'none' },
  engine: engineOf(config),
});
const graph = new Graph();
const device = replicaDeviceSetter({ psTasks: 1, workerDevice: config.task });
const a = graph.asDefault(() => graph.device(device, () => tf.newVariable([1], { name: 'a' })));
const session = server.session(graph, { waitMs: 30_000, onProgress: (line) => console.log(line) });
await session.run(a.initializer);
// Registered before `ready`, after which the signal may arrive.
const closeSignal = once(process, 'SIGUSR2');
console.log('ready');
await closeSignal;
await session.close();
console.log('closed');
process.exit();
