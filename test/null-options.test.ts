/**
 * None, in TypeScript null, is the default of every option: the graph with null is the graph without the option.
 * The names of the options are typed, so that the compiler checks that each accepts null.
 */
import { describe, expect, it } from 'vitest';
import { Graph, type Output, tf } from '../src/index.js';

interface Case {
  readonly title: string;
  readonly names: readonly string[];
  readonly build: (options: Readonly<Record<string, null>>) => unknown;
}

type Nulls<N extends string> = { readonly [K in N]?: null };

/** A function with the options that may be left out. */
const optional = <const N extends string>(
  title: string,
  names: readonly N[],
  build: (options: Nulls<N>) => unknown,
): Case => ({ title, names, build: build as Case['build'] });

const OP = ['name', 'device', 'controlInputs'] as const;
const FILES = ['data.txt'];
const matrix = () =>
  tf.constant([
    [1, 2],
    [3, 4],
  ]);
const image = () => tf.placeholder({ shape: [2, 4, 4, 3] });
const ints = () => tf.constant([1, 0], { dtype: 'int32' });
const flags = () => tf.constant([true, false]);
const table = () => tf.getVariable('table', { shape: [4, 2], initializer: tf.zerosInitializer() });
const sparse = () =>
  new tf.SparseTensor({
    indices: [[0n, 0n]] as never,
    values: tf.constant([1], { dtype: 'int64' }),
    denseShape: [1n, 1n] as never,
  });
const numbers = () => tf.data.range(10);
const weight = () => tf.newVariable(0.5, { name: 'weight' });
const lossOf = (variable: { square(): Output }) => variable.square();

const QUEUE = ['sharedName', 'name'] as const;
const READ = ['compression', 'bufferSize', 'parallelFiles'] as const;
const PARALLEL = ['parallel', 'deterministic'] as const;
const LOSS = ['weights', 'reduction', 'name'] as const;
const METRIC = ['weights', 'name'] as const;
const LOOKUP = ['partitionStrategy', 'maxNorm', 'name'] as const;
const REDUCE = ['axis', 'keepDims', 'keepdims', ...OP] as const;
const RANDOM = ['dtype', 'seed', ...OP] as const;

const CASES: readonly Case[] = [
  // Creation
  optional('constant', ['dtype', 'shape', ...OP], (o) => tf.constant([1, 2], o)),
  optional('placeholder', ['dtype', 'shape', ...OP], (o) => tf.placeholder(o)),
  optional('zeros', ['dtype', ...OP], (o) => tf.zeros([2], o)),
  optional('ones', ['dtype', ...OP], (o) => tf.ones([2], o)),
  optional('fill', OP, (o) => tf.fill([2], 3, o)),
  optional('oneHot', ['onValue', 'offValue', 'dtype', 'axis', ...OP], (o) => tf.oneHot(ints(), 3, o)),
  optional('group', OP, (o) => tf.group([tf.noOp()], o)),
  optional('SparseTensor.placeholder', ['dtype', 'rank', 'name'], (o) => tf.SparseTensor.placeholder(o)),
  // Random
  optional('randomUniform', ['low', 'minval', 'high', 'maxval', ...RANDOM], (o) => tf.randomUniform([2], o)),
  optional('randomNormal', ['mean', 'stddev', ...RANDOM], (o) => tf.randomNormal([2], o)),
  optional('truncatedNormal', ['mean', 'stddev', ...RANDOM], (o) => tf.truncatedNormal([2], o)),
  optional('truncatedNormal by position', ['dtype', 'seed'], (o) => tf.truncatedNormal([2], 0, 0.1, o)),
  optional('randomShuffle', ['seed', ...OP], (o) => tf.randomShuffle(matrix(), o)),
  // Mathematics and arrays
  optional('add', OP, (o) => tf.add(matrix(), 1, o)),
  optional('matmul', ['transposeA', 'transposeB', ...OP], (o) => tf.matmul(matrix(), matrix(), o)),
  optional('batched matmul', ['transposeA', 'transposeB'], (o) =>
    tf.matmul(tf.ones([1, 2, 2]), tf.ones([1, 2, 2]), o),
  ),
  optional('generated matMul', ['gradA', 'transposeA', ...OP], (o) => tf.raw.matMul(matrix(), matrix(), o)),
  optional('reduceSum', REDUCE, (o) => tf.reduceSum(matrix(), o)),
  optional('reduceLogsumexp', REDUCE, (o) => tf.math.reduceLogsumexp(matrix(), o)),
  optional('norm', REDUCE, (o) => tf.norm(matrix(), o)),
  optional('moments', ['axis', 'keepDims', 'keepdims'], (o) => tf.nn.moments(matrix(), o)),
  optional('argmax', ['axis', 'outputType', ...OP], (o) => tf.argmax(matrix(), o)),
  optional('cumsum', ['axis', 'exclusive', 'reverse', ...OP], (o) => tf.cumsum(matrix(), o)),
  optional('clipByValue', OP, (o) => tf.clipByValue(matrix(), 0, 1, o)),
  optional('gather', ['axis', 'batchDims', ...OP], (o) => tf.gather(matrix(), [0], o)),
  optional('pad', ['value', 'mode', ...OP], (o) =>
    tf.pad(
      matrix(),
      [
        [0, 1],
        [1, 0],
      ],
      o,
    ),
  ), // prettier-ignore
  optional('stridedSlice', ['strides', 'beginMask', 'endMask', ...OP], (o) =>
    tf.stridedSlice(matrix(), [0, 0], [1, 2], o),
  ),
  optional('squeeze', ['axis', ...OP], (o) => tf.squeeze(tf.expandDims(matrix(), 0), o)),
  optional('transpose', ['perm', ...OP], (o) => tf.transpose(matrix(), o)),
  optional('whileLoop', ['maximumIterations', 'shapeInvariants', ...OP], (o) =>
    tf.whileLoop(
      (i) => i.less(3),
      (i) => [i.add(1)],
      [tf.constant(0)],
      o,
    ),
  ), // prettier-ignore
  optional('cond', OP, (o) =>
    tf.cond(
      tf.constant(true),
      () => [tf.constant(1)],
      () => [tf.constant(2)],
      o,
    ),
  ),
  optional('gradients', ['gradYs', 'stopGradients'], (o) => {
    const x = matrix();
    return tf.gradients([x.square()], [x], o);
  }),
  // Neural networks
  optional('nn.softmax', ['axis', ...OP], (o) => tf.nn.softmax(matrix(), o)),
  optional('nn.leakyRelu', ['alpha', ...OP], (o) => tf.nn.leakyRelu(matrix(), o)),
  optional('nn.conv2d', ['strides', 'padding', 'dilations', ...OP], (o) =>
    tf.nn.conv2d(image(), tf.zeros([2, 2, 3, 1]), o),
  ),
  optional('nn.maxPool', ['size', 'strides', 'padding', ...OP], (o) => tf.nn.maxPool(image(), o)),
  optional('nn.l2Normalize', ['axis', 'epsilon', ...OP], (o) => tf.nn.l2Normalize(matrix(), o)),
  optional('nn.topK', ['k', 'sorted', ...OP], (o) => tf.nn.topK(matrix(), o)),
  optional('nn.softmaxCrossEntropyWithLogits', OP, (o) =>
    tf.nn.softmaxCrossEntropyWithLogits({ labels: matrix(), logits: matrix(), ...o }),
  ),
  optional('nn.embeddingLookup', ['unique', ...LOOKUP], (o) => tf.nn.embeddingLookup(table(), ints(), o)),
  optional('nn.embeddingLookupSparse', ['combiner', ...LOOKUP], (o) =>
    tf.nn.embeddingLookupSparse(table(), sparse(), null, o),
  ),
  optional('nn.safeEmbeddingLookupSparse', ['combiner', 'defaultId', ...LOOKUP], (o) =>
    tf.nn.safeEmbeddingLookupSparse(table(), sparse(), null, o),
  ),
  // Variables and initializers
  optional('newVariable', ['name', 'dtype', 'trainable', 'collections'], (o) => tf.newVariable(1.5, o)),
  optional('Variable.read', OP, (o) => weight().read(o)),
  optional('getVariable', ['dtype', 'initializer', 'trainable', 'collections', 'partitioner'], (o) =>
    tf.getVariable('v', { shape: [2], ...o }),
  ),
  optional('getVariable with a value', ['shape', 'dtype'], (o) =>
    tf.getVariable('v', { initializer: 1, ...o }),
  ),
  optional('variable', ['dtype', 'initializer', 'trainable'], (o) => tf.variable('v', { shape: [2], ...o })),
  optional('variableScope', ['reuse', 'initializer', 'partitioner'], (o) =>
    tf.variableScope('scope', () => tf.getVariable('v', { shape: [2] }), o),
  ),
  optional('randomUniformInitializer', ['seed'], (o) =>
    tf.randomUniformInitializer(-1, 1, o)([2], 'float32'),
  ),
  optional('varianceScaling', ['scale', 'mode', 'distribution', 'seed'], (o) =>
    tf.initializers.varianceScaling(o)([2, 2], 'float32'),
  ),
  optional('glorotUniform', ['seed'], (o) => tf.initializers.glorotUniform(o)([2, 2], 'float32')),
  optional('orthogonal', ['gain', 'seed'], (o) => tf.initializers.orthogonal(o)([2, 2], 'float32')),
  // Layers
  optional('layers.dense', ['activation', 'useBias', 'kernelInitializer', 'kernelRegularizer', 'name'], (o) =>
    tf.layers.dense(matrix(), 3, o),
  ),
  optional('keras.layers.dense', ['activation', 'useBias', 'kernelInitializer', 'name'], (o) =>
    tf.keras.layers.dense(3, o).connect([matrix()], {
      name: 'dense',
      training: true,
      masks: [],
      build: () => ({ outputs: [], masks: [] }),
    }),
  ),
  // Losses and metrics
  optional('losses.meanSquaredError', LOSS, (o) => tf.losses.meanSquaredError(matrix(), matrix(), o)),
  optional('losses.log', ['epsilon', ...LOSS], (o) =>
    tf.losses.log({ labels: matrix(), predictions: matrix(), ...o }),
  ),
  optional('losses.huber', ['delta', ...LOSS], (o) => tf.losses.huber(matrix(), matrix(), o)),
  optional('losses.softmaxCrossEntropy', ['labelSmoothing', ...LOSS], (o) =>
    tf.losses.softmaxCrossEntropy(matrix(), matrix(), o),
  ),
  optional('losses.sparseSoftmaxCrossEntropy', LOSS, (o) =>
    tf.losses.sparseSoftmaxCrossEntropy(ints(), matrix(), o),
  ),
  optional('losses.computeWeightedLoss', LOSS, (o) => tf.losses.computeWeightedLoss(matrix(), o)),
  optional('losses.getTotalLoss', ['graph', 'addRegularizationLosses', 'name'], (o) => {
    tf.losses.meanSquaredError(matrix(), matrix());
    return tf.losses.getTotalLoss(o);
  }),
  optional('metrics.mean', METRIC, (o) => tf.metrics.mean(matrix(), o)),
  optional('metrics.accuracy', METRIC, (o) => tf.metrics.accuracy(ints(), ints(), o)),
  optional('metrics.precision', METRIC, (o) => tf.metrics.precision(flags(), flags(), o)),
  optional('metrics.recall', METRIC, (o) => tf.metrics.recall(flags(), flags(), o)),
  optional('metrics.auc', ['curve', 'numThresholds', 'thresholds', 'summationMethod', ...METRIC], (o) =>
    tf.metrics.auc(flags(), tf.constant([0, 1]), o),
  ),
  // Summaries
  optional('summary.scalar', ['collections', 'family'], (o) => tf.summary.scalar('s', tf.constant(1), o)),
  optional('summary.histogram', ['collections', 'family'], (o) => tf.summary.histogram('h', matrix(), o)),
  optional('summary.image', ['collections', 'family', 'maxOutputs'], (o) =>
    tf.summary.image('i', image(), o),
  ),
  optional('summary.text', ['collections', 'family'], (o) => tf.summary.text('t', tf.constant(['a']), o)),
  optional('summary.merge', ['collections', 'name'], (o) =>
    tf.summary.merge([tf.summary.scalar('s', tf.constant(1))], o),
  ),
  // Lookup tables
  optional('lookup.indexTableFromTensor', ['name', 'dtype', 'defaultValue', 'numOovBuckets'], (o) =>
    tf.lookup.indexTableFromTensor(['a', 'b'], o),
  ),
  optional(
    'lookup.indexTableFromFile',
    ['name', 'vocabSize', 'keyColumnIndex', 'delimiter', 'defaultValue', 'numOovBuckets', 'keyDtype'],
    (o) => tf.lookup.indexTableFromFile('words.txt', o),
  ),
  optional('lookup.indexToStringTableFromTensor', ['name', 'defaultValue'], (o) =>
    tf.lookup.indexToStringTableFromTensor(['a', 'b'], o),
  ),
  optional('lookup.indexToStringTableFromFile', ['name', 'vocabSize', 'defaultValue'], (o) =>
    tf.lookup.indexToStringTableFromFile('words.txt', o),
  ),
  // Strings
  optional('strings.join', ['separator', ...OP], (o) => tf.strings.join([['a'], ['b']], o)),
  optional('strings.format', ['placeholder', 'summarize', ...OP], (o) =>
    tf.strings.format('{}', matrix(), o),
  ),
  optional('strings.split', ['sep', 'maxsplit', ...OP], (o) => tf.strings.split(['a b'], o)),
  // Input
  optional('train.stringInputProducer', ['numEpochs', 'shuffle', 'seed', 'capacity', ...QUEUE], (o) =>
    tf.train.stringInputProducer(FILES, o),
  ),
  optional('train.limitEpochs', [], () => tf.train.limitEpochs(matrix(), null)),
  optional('train.matchFilenamesOnce', ['name'], (o) => tf.train.matchFilenamesOnce('*.txt', o)),
  optional(
    'train.batch',
    ['numThreads', 'capacity', 'enqueueMany', 'shapes', 'allowSmallerFinalBatch', 'dynamicPad', ...QUEUE],
    (o) => tf.train.batch([matrix()], { batchSize: 2, ...o }),
  ),
  optional('train.shuffleBatch', ['seed', 'numThreads', 'enqueueMany', 'shapes', ...QUEUE], (o) =>
    tf.train.shuffleBatch([matrix()], { batchSize: 2, capacity: 9, minAfterDequeue: 1, ...o }),
  ),
  optional('train.prefetchQueue', ['capacity', 'numThreads', ...QUEUE], (o) =>
    tf.train.prefetchQueue([matrix()], o),
  ),
  optional('train.TFRecordReader', ['name', 'compression'], (o) => new tf.TFRecordReader(o)),
  optional('train.TextLineReader', ['name', 'skipHeaderLines'], (o) => new tf.TextLineReader(o)),
  optional('data.textLines', READ, (o) => tf.data.textLines(FILES, o)),
  optional('data.tfRecord', READ, (o) => tf.data.tfRecord(FILES, o)),
  optional('Dataset.map', PARALLEL, (o) => numbers().map((x) => x, o)),
  optional('Dataset.shuffle', ['seed', 'reshuffleEachIteration'], (o) => numbers().shuffle(4, o)),
  optional('Dataset.batch', ['dropRemainder', ...PARALLEL], (o) => numbers().batch(2, o)),
  optional('Dataset.paddedBatch', ['dropRemainder', 'shapes', 'values'], (o) => numbers().paddedBatch(2, o)),
  optional('Dataset.repeat', [], () => numbers().repeat(null)),
  optional('Dataset.iterator', ['sharedName', 'name'], (o) => numbers().iterator(o)),
  optional('parseExample', ['name'], (o) =>
    tf.parseExample(tf.constant(['']), { x: tf.fixedLenFeature([2], 'int64') }, o),
  ),
  // Optimizers
  optional('train.AdamOptimizer', ['beta1', 'beta2', 'epsilon', 'useLocking', 'name'], (o) =>
    new tf.train.AdamOptimizer(0.1, o).minimize(lossOf(weight())),
  ),
  optional('train.sgd', ['useLocking', 'name'], (o) => tf.train.sgd(0.1, o).minimize(lossOf(weight()))),
  optional('minimize', ['globalStep', 'varList', 'gradLoss', 'name', 'guard'], (o) =>
    tf.train.sgd(0.1).minimize(lossOf(weight()), o),
  ),
  optional('train.SyncReplicasOptimizer', ['totalNumReplicas', 'workerIndex', 'deterministic'], (o) => {
    const inner = tf.train.sgd(0.1);
    const workerDevice = '/job:worker/task:0';
    const sync = new tf.train.SyncReplicasOptimizer(inner, { replicasToAggregate: 2, workerDevice, ...o });
    return sync.minimize(lossOf(weight()), { globalStep: tf.train.getOrCreateGlobalStep() });
  }),
  optional('train.exponentialDecay', ['staircase'], (o) =>
    tf.train.exponentialDecay(0.1, { decaySteps: 10, decayRate: 0.5, ...o })(tf.constant(1)),
  ),
  optional('train.polynomialDecay', ['endLearningRate', 'power', 'cycle'], (o) =>
    tf.train.polynomialDecay(0.1, { decaySteps: 10, ...o })(tf.constant(1)),
  ),
  optional('train.cosineDecayRestarts', ['tMul', 'mMul', 'alpha'], (o) =>
    tf.train.cosineDecayRestarts(0.1, { firstDecaySteps: 10, ...o })(tf.constant(1)),
  ),
  optional('train.replicaDeviceSetter', ['psTasks', 'cluster', 'psDevice', 'psOps', 'psStrategy'], (o) =>
    tf.train.replicaDeviceSetter(o),
  ),
  optional('train.ExponentialMovingAverage', ['numUpdates', 'zeroDebias', 'name'], (o) =>
    new tf.train.ExponentialMovingAverage(0.9, o).apply([weight()]),
  ),
  optional('globalNorm', OP, (o) => tf.globalNorm([matrix()], o)),
  optional('clipByGlobalNorm', ['useNorm'], (o) => tf.clipByGlobalNorm([matrix()], 1, o)),
  optional('train.exportMetaGraph', ['graph', 'tags', 'collections', 'clearDevices', 'saverDef'], (o) =>
    tf.train.exportMetaGraph(o),
  ),
];

/** The nodes and the collections that a call adds. */
function made(build: () => unknown) {
  using graph = new Graph();
  graph.seed = 1;
  graph.asDefault(build);
  const collections = graph.collectionNames.map((name) => [name, graph.getCollection(name).length] as const);
  return { nodes: graph.toGraphDef().node, collections };
}

describe('null is the default of every option', () => {
  it.each(CASES)('$title', ({ names, build }) => {
    const without = made(() => build({}));
    for (const name of names)
      expect(
        made(() => build({ [name]: null })),
        name,
      ).toEqual(without);
    expect(made(() => build(Object.fromEntries(names.map((name) => [name, null]))))).toEqual(without);
  });
});
