/**
 * A worker that calls a dead ps before the membership has detected the death: it continues with runs of new fetches,
 * then closes its session and logs whether all native calls returned.
 */
import { sleep } from '../../../src/base/async/deadline.js';
import { isShoalError } from '../../../src/base/errors/errors.js';
import { ClusterServer } from '../../../src/distributed/cluster/runtime/cluster-server.js';
import { engineOf, resolveConfig } from '../../../src/distributed/cluster/spec/config.js';
import { replicaDeviceSetter } from '../../../src/distributed/cluster/spec/device-setter.js';
import { Graph, tf } from '../../../src/index.js';
import { nativeCallQueue } from '../../../src/tensorflow/session/native-call-queue.js';

const config = resolveConfig({ argv: process.argv.slice(2), env: process.env });
if (config.mode !== 'cluster') throw new Error('no cluster is configured: pass flags');
const server = await ClusterServer.create({
  spec: config.spec,
  self: config.task,
  security: { kind: 'none' },
  engine: engineOf(config),
});
const graph = new Graph();
const device = replicaDeviceSetter({ psTasks: 2, workerDevice: config.task });
const place = <T>(build: () => T): T => graph.asDefault(() => graph.device(device, build));
const variables = place(() => ['a', 'b'].map((name) => tf.newVariable([1], { name })));
const [a, b] = variables as [(typeof variables)[number], (typeof variables)[number]];
const step = place(() => [a.assignAdd(b.mul(0.5)), b.assignAdd(a.mul(0.5))]);
const others = place(() => [1, 2, 3].map((n) => b.mul(n).add(a)));
const session = server.session(graph, { waitMs: 30_000 });
await session.run([a.initializer, b.initializer]);
console.log('ready');
try {
  for (;;) await session.run(step, { timeoutMs: 10_000 });
} catch (error) {
  if (!isShoalError(error, 'SHOAL_TF_UNAVAILABLE')) throw error;
}
for (const other of others) {
  if (server.task.members().some(({ status }) => status === 'dead')) break;
  await session.run(other, { timeoutMs: 5000 }).catch((error: unknown) => {
    if (!isShoalError(error, 'SHOAL_TF_UNAVAILABLE')) throw error;
  });
}
await session.close();
// Closing continues in the background if the membership has detected the death first.
const deadline = Date.now() + 10_000;
while (nativeCallQueue().running > 0 && Date.now() < deadline) await sleep(50);
console.log(nativeCallQueue().running === 0 ? 'closed' : 'a call never returned');
process.exit();
