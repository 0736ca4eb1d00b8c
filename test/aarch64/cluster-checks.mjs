/** Checks between two processes: a session on a ps, shared variables, the loss of the ps. */
import assert from 'node:assert/strict';
import { TensorFlowServer } from '../../dist/distributed/cluster/grpc/tensorflow-server.js';
import { clusterConfig } from '../../dist/distributed/cluster/spec/cluster-config.js';
import { replicaDeviceSetter } from '../../dist/distributed/cluster/spec/device-setter.js';
import { Graph, Session, tf } from '../../dist/index.js';
import { send } from './reporter.mjs';

const TIMEOUT_MS = 60_000;
const STEPS = 8;

/** Scenario 000's model: a line through points, w and b on the ps. */
function model() {
  const graph = new Graph();
  const place = replicaDeviceSetter({ psTasks: 1, workerDevice: '/job:worker/task:0' });
  return graph.asDefault(() =>
    tf.device(place, () => {
      const w = tf.newVariable(tf.constant([2]), { name: 'w' });
      const b = tf.newVariable(tf.constant([-1]), { name: 'b' });
      const globalStep = tf.getOrCreateGlobalStep();
      const x = tf.constant([0, 0.25, 0.5, 0.75]);
      const loss = x.mul(w).add(b).sub(x.mul(0.1).add(0.3)).square().mean();
      const [gw, gb] = tf.gradients(loss, [w, b]);
      const step = tf.group([w.assignSub(gw.mul(0.5)), b.assignSub(gb.mul(0.5)), globalStep.assignAdd(1n)]);
      return { graph, w, globalStep, loss, step, init: tf.globalVariablesInitializer() };
    }),
  );
}

export function clusterChecks(answers) {
  let server;
  let ps;
  let trained;
  const open = (graph) =>
    Session.create({
      graph,
      target: server.target,
      config: clusterConfig({ ps: new Map([[0, ps]]), worker: new Map([[0, server.address]]) }),
      timeoutMs: TIMEOUT_MS,
    });
  const run = (session, fetches) => session.run(fetches, { timeoutMs: TIMEOUT_MS });

  return [
    [
      'worker: a server starts, with the request id fix',
      async () => {
        server = await TensorFlowServer.start();
        assert.deepEqual(server.requestIds, { repaired: true });
      },
    ],
    [
      `worker: ${STEPS} steps train variables on the ps`,
      async () => {
        ({ ps } = await answers.next());
        const { graph, w, globalStep, loss, step, init } = model();
        const session = await open(graph);
        assert.match(w.device, /\/job:ps\/task:0/);
        await run(session, init);
        const before = (await run(session, loss)).item();
        for (let i = 0; i < STEPS; i++) await run(session, step);
        const after = await run(session, { loss, globalStep, w });
        assert.equal(after.globalStep.item(), BigInt(STEPS));
        assert.ok(after.loss.item() < before / 4, `the loss went from ${before} to ${after.loss.item()}`);
        trained = { session, step, w: after.w.toArray() };
      },
    ],
    [
      'worker: another session reads the trained variables',
      async () => {
        const { graph, w, globalStep } = model();
        const session = await open(graph);
        const found = await run(session, { w, globalStep });
        assert.deepEqual(found.w.toArray(), trained.w);
        assert.equal(found.globalStep.item(), BigInt(STEPS));
        await session.close({ timeoutMs: TIMEOUT_MS });
      },
    ],
    [
      'worker: a step on a dead ps fails as unavailable',
      async () => {
        send({ ask: 'kill the ps' });
        await answers.next();
        await assert.rejects(run(trained.session, trained.step), { code: 'SHOAL_TF_UNAVAILABLE' });
      },
    ],
  ];
}
