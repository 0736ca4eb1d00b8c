// One task of the sparse cluster benchmark: the model of scenario 001 from TFRecord files.
import { replicaDeviceSetter, resolveConfig } from '../../dist/cluster/index.js';
import { Server } from '../../dist/cluster/runtime/server.js';
import { Graph, tf } from '../../dist/index.js';
import { RecoverableSession } from '../../dist/train/recovery/recoverable-session.js';
import { measured } from './measured.mjs';

const { features, batch, files, inflight, warm, seconds } = JSON.parse(process.env.BENCH);
const config = resolveConfig({ argv: process.argv.slice(2) });
const server = await Server.start({ spec: config.spec, self: config.task, security: { kind: 'none' } });

const FEATURES = {
  label: tf.fixedLenFeature([], 'float32'),
  ids: tf.varLenFeature('int64'),
  values: tf.varLenFeature('float32'),
};

function build(parts, index) {
  const globalStep = tf.getOrCreateGlobalStep();
  const { label, ids, values } = tf.data
    .tfRecord(files[index])
    .shuffle(10_000)
    .repeat()
    .batch(batch, { dropRemainder: true })
    .parseExample(FEATURES)
    .prefetch(2)
    .iterator()
    .getNext();
  const weights = tf.partitionedVariable('weights', {
    shape: [features, 2],
    initializer: tf.zerosInitializer(),
    partitioner: tf.fixedSizePartitioner(parts),
  });
  const bias = tf.variable('bias', { shape: [2], initializer: tf.zerosInitializer() });
  const logits = tf.embeddingLookupSparse(weights, ids, values, { combiner: 'sum' }).add(bias);
  const loss = tf.losses.sparseSoftmaxCrossEntropy(tf.cast(label, 'int64'), logits);
  const train = tf.train.ftrl(0.01).minimize(loss, { globalStep });
  return { loss, globalStep, train, start: tf.tablesInitializer() };
}

if (!String(config.task).startsWith('/job:ps')) {
  const graph = new Graph();
  const psTasks = server.psTasks.length;
  const device = replicaDeviceSetter({ psTasks, workerDevice: config.task });
  const index = Number(/\d+$/.exec(String(config.task))[0]);
  const parts = graph.asDefault(() => graph.device(device, () => build(psTasks, index)));
  const { loss, globalStep, train, start } = parts;
  const session = new RecoverableSession({ runner: server.session(graph), graph, isChief: server.isChief });
  await session.ready();
  await session.runUngated(start);
  await measured(() => session.run([train, globalStep, loss]), { inflight, warm, seconds });
}
