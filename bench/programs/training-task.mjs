// One task of a cluster that trains until it is killed. A worker prints "warm" after its warm-up, starts to count at
// the next input line, and prints "rate STEPS_PER_SECOND": so all workers measure the same seconds. With the setting
// `turnStart`, the seconds from the first step of a turn until it counts, it can be measured again and again, and makes no
// steps between the measurements.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { replicaDeviceSetter, resolveConfig } from '../../dist/cluster/index.js';
import { ClusterServer } from '../../dist/cluster/runtime/cluster-server.js';
import { loadTls } from '../../dist/cluster/spec/security.js';
import { Graph } from '../../dist/index.js';
import { RecoverableSession } from '../../dist/train/recovery/recoverable-session.js';

export const settings = JSON.parse(process.env.BENCH);

/** Trains the model of `build` on a worker, after its `init` op if it has one. A ps only serves. */
export async function trainTask(build) {
  const { spec, task } = resolveConfig({ argv: process.argv.slice(2) });
  const engine = process.env.SHOAL_ENGINE;
  const server = await ClusterServer.create({
    spec,
    self: task,
    security: settings.certs ? loadTls(settings.certs, task) : { kind: 'none' },
    ...(engine && { engine }),
  });
  if (String(task).startsWith('/job:ps')) return;
  const graph = new Graph();
  const psTasks = server.psTasks.length;
  const device = replicaDeviceSetter({ psTasks, workerDevice: task });
  const index = Number(/\d+$/.exec(String(task))[0]);
  const model = graph.asDefault(() => graph.device(device, () => build({ psTasks, index })));
  const session = new RecoverableSession({ runner: server.session(graph), graph, isChief: server.isChief });
  await session.ready();
  if (model.init) await session.runUngated(model.init);
  await measure(() => session.run([model.train, model.globalStep, model.loss]));
}

async function measure(step) {
  const { inflight, warm, seconds, turnStart } = settings;
  let steps = 0;
  let turn = Promise.resolve();
  const trainForever = async () => {
    for (; ; steps++) {
      await turn;
      await step();
    }
  };
  const training = Promise.all(Array.from({ length: inflight }, trainForever));
  const count = async () => {
    await sleep(warm * 1000);
    for (;;) {
      let go = () => {};
      if (turnStart) turn = new Promise((resolve) => (go = resolve));
      console.log('warm');
      await once(process.stdin, 'data');
      go();
      if (turnStart) await sleep(turnStart * 1000);
      const [start, before] = [performance.now(), steps];
      await sleep(seconds * 1000);
      console.log(`rate ${((steps - before) / (performance.now() - start)) * 1000}`);
    }
  };
  await Promise.all([training, count()]);
}
