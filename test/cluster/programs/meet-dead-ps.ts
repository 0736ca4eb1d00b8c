/**
 * A worker that meets a dead ps before the membership knows of the death: it goes on asking for things that it
 * has not asked for before, then closes its session and says how that went.
 */
import { resolveConfig } from '../../../src/cluster/config.js';
import { replicaDeviceSetter } from '../../../src/cluster/device-setter.js';
import { Server } from '../../../src/cluster/server.js';
import { isShoalError } from '../../../src/errors/errors.js';
import { Graph, tf } from '../../../src/index.js';

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('tell the cluster by flags');
const server = await Server.start({ spec: config.spec, self: config.task, security: { kind: 'none' } });
const graph = new Graph();
const device = replicaDeviceSetter({ psTasks: 1, workerDevice: config.task });
const variable = graph.asDefault(() => graph.device(device, () => tf.newVariable([1], { name: 'v' })));
const others = graph.asDefault(() => graph.device(device, () => [1, 2, 3].map((n) => variable.mul(n))));
const session = server.session(graph);
await session.run(variable.initializer);
console.log('ready');
try {
  for (;;) await session.run(variable.toOutput());
} catch (error) {
  if (!isShoalError(error, 'SHOAL_TF_UNAVAILABLE')) throw error;
}
const codes = [];
for (const other of others) {
  const code = await session.run(other, { timeoutMs: 5000 }).then(
    () => 'none',
    (error: unknown) => (isShoalError(error) ? error.code : String(error)),
  );
  codes.push(code);
  if (server.task.members().some(({ status }) => status === 'dead')) break;
}
console.log(`failed with ${codes.join(', ')}`);
await session.close().then(
  () => console.log('closed'),
  (error: unknown) => console.log(`not closed: ${error}`),
);
process.exit();
