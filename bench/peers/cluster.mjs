// One task of the cluster benchmark: a model by its name.
import { replicaDeviceSetter, resolveConfig } from '../../dist/cluster/index.js';
import { Server } from '../../dist/cluster/runtime/server.js';
import { Graph, tf } from '../../dist/index.js';
import { RecoverableSession } from '../../dist/train/recovery/recoverable-session.js';
import { measured } from './measured.mjs';

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
  await measured(() => session.run([train, globalStep, loss]), { inflight, warm, seconds });
}
