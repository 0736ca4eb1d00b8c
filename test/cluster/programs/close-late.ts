/** A worker whose work is done: it closes its session when it is told to by a signal, and says how that went. */
import { once } from 'node:events';
import { Server } from '../../../src/cluster/runtime/server.js';
import { resolveConfig } from '../../../src/cluster/spec/config.js';
import { replicaDeviceSetter } from '../../../src/cluster/spec/device-setter.js';
import { Graph, tf } from '../../../src/index.js';

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('tell the cluster by flags');
const server = await Server.start({ spec: config.spec, self: config.task, security: { kind: 'none' } });
const graph = new Graph();
const device = replicaDeviceSetter({ psTasks: 1, workerDevice: config.task });
const a = graph.asDefault(() => graph.device(device, () => tf.newVariable([1], { name: 'a' })));
const session = server.session(graph, { waitMs: 30_000, onProgress: (line) => console.log(line) });
await session.run(a.initializer);
// Listened for before anybody can send it.
const told = once(process, 'SIGUSR2');
console.log('ready');
await told;
await session.close();
console.log('closed');
process.exit();
