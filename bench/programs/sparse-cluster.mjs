// One task of the sparse cluster benchmark: the model of scenario 001, trained from TFRecord files.
import { tf } from 'shoal';
import { settings, trainTask } from './training-task.mjs';

const { features, batch, files } = settings;

const FEATURES = {
  label: tf.fixedLenFeature([], 'float32'),
  ids: tf.varLenFeature('int64'),
  values: tf.varLenFeature('float32'),
};

function build({ psTasks, index }) {
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
    partitioner: tf.fixedSizePartitioner(psTasks),
  });
  const bias = tf.variable('bias', { shape: [2], initializer: tf.zerosInitializer() });
  const logits = tf.embeddingLookupSparse(weights, ids, values, { combiner: 'sum' }).add(bias);
  const loss = tf.losses.sparseSoftmaxCrossEntropy(tf.cast(label, 'int64'), logits);
  const train = tf.train.ftrl(0.01).minimize(loss, { globalStep });
  return { loss, globalStep, train };
}

await trainTask(build);
