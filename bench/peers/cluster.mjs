// One task of the cluster benchmark. A worker prints "rate STEPS_PER_SECOND" and then waits to be ended.
import { replicaDeviceSetter, resolveConfig, Server } from '../../dist/cluster/index.js';
import { Graph, tf } from '../../dist/index.js';
import { RecoverableSession } from '../../dist/train/recoverable-session.js';

const { model, inflight, warm, seconds } = JSON.parse(process.env.BENCH);
const config = resolveConfig({ argv: process.argv.slice(2) });
const server = await Server.start({ spec: config.spec, self: config.task, security: { kind: 'none' } });

function build() {
  const globalStep = tf.getOrCreateGlobalStep();
  if (model === 'linear') {
    const x = tf.constant(Array.from({ length: 100 }, (_, i) => i / 100));
    const y = x.mul(0.1).add(0.3);
    const w = tf.newVariable(tf.randomUniform([1], -1, 1));
    const b = tf.newVariable(tf.zeros([1]));
    const loss = x.mul(w).add(b).sub(y).square().mean();
    return { loss, globalStep, train: tf.train.adagrad(0.01).minimize(loss, { globalStep }) };
  }
  const images = tf.constant(0.5, { shape: [100, 784] });
  const labels = tf.oneHot(tf.range(0, 100).mod(10), 10);
  const w = tf.variable('w', { shape: [784, 10], initializer: tf.zerosInitializer() });
  const b = tf.variable('b', { shape: [10], initializer: tf.zerosInitializer() });
  const loss = tf.softmaxCrossEntropyWithLogits(labels, images.matMul(w).add(b)).mean();
  return { loss, globalStep, train: tf.train.sgd(0.01).minimize(loss, { globalStep }) };
}

if (!String(config.task).startsWith('/job:ps')) {
  const graph = new Graph();
  const device = replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: config.task });
  const { loss, globalStep, train } = graph.asDefault(() => graph.device(device, build));
  const session = new RecoverableSession({ runner: server.session(graph), graph, isChief: server.isChief });
  await session.ready();
  const step = () => session.run([train, globalStep, loss]);
  const loop = async (until) => {
    let steps = 0;
    for (; performance.now() < until; steps++) await step();
    return steps;
  };
  const run = (time) => {
    const until = performance.now() + time * 1000;
    return Promise.all(Array.from({ length: inflight }, () => loop(until)));
  };
  await run(warm);
  const start = performance.now();
  const counts = await run(seconds);
  console.log(`rate ${counts.reduce((a, b) => a + b) / ((performance.now() - start) / 1000)}`);
  // The others may still be counting: a worker that stopped would make the cluster faster for them.
  await run(5);
}
