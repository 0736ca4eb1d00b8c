/** Names and functions of src/: an exported name means one thing, and a function fits on a screen. */
import { expect, test } from 'vitest';
import { isForTests, isGenerated, readSources } from './sources.js';

/** Names that a public API of TensorFlow has at several places. */
const NAMES_OF_TENSORFLOW = [
  // A layer of Keras, the function of tf.layers, and the op of tf.nn, tf or tf.math.
  ...['add', 'averagePooling2d', 'batchNorm', 'conv2d', 'dense', 'dropout', 'embedding', 'flatten'],
  ...['layerNorm', 'maxPooling1d', 'maxPooling2d', 'maxPooling3d', 'reshape', 'maximum', 'minimum'],
  ...['averagePooling1d', 'averagePooling3d', 'conv1d', 'conv3d', 'multiHeadAttention'],
  ...['conv1dTranspose', 'conv2dTranspose', 'conv3dTranspose', 'depthwiseConv1d', 'depthwiseConv2d'],
  ...['separableConv1d', 'separableConv2d', 'simpleRnn', 'lstm', 'gru'],
  // tf.losses.log, tf.metrics.mean, tf.data.range, tf.summary.scalar and tf.strings.split beside the ops of these names.
  ...['log', 'mean', 'range', 'scalar', 'split'],
  // tf.sparse and tf.ragged beside the ops of these names and the function for gradients.
  ...['concat', 'placeholder', 'reduceMax', 'reduceSum', 'slice', 'softmax', 'toDense', 'transpose'],
  // tf.int32 and tf.int64 beside literals of these types.
  ...['int32', 'int64'],
];

const LONGEST_FUNCTION = 60;
/** Longer functions, by file and name; the list may only shrink. */
const LONG_FUNCTIONS = [
  'app/keras/model.ts fit',
  'app/keras/training/fit.ts fitSource',
  'app/cli/commands/run/run.ts runJobCommand',
  'app/job/definition/define-job.ts defineJob',
  'app/job/running/train-loop.ts trainLoop',
  'app/serving/rest/json-tensor.ts targetOf',
  'app/serving/serve.ts serve',
  'distributed/engine/partition/partition.ts partition',
];

const program = readSources().filter(({ path }) => !isForTests(path) && !isGenerated(path));

test('an exported name is declared once', () => {
  const files = new Map<string, Set<string>>();
  for (const { path, exports } of program)
    for (const name of exports) files.set(name, (files.get(name) ?? new Set()).add(path));
  const twice = [...files].filter(([name, { size }]) => size > 1 && !NAMES_OF_TENSORFLOW.includes(name));
  expect(twice.map(([name, paths]) => `${name}: ${[...paths].join(', ')}`)).toEqual([]);
});

test(`functions have at most ${LONGEST_FUNCTION} lines`, () => {
  const long = program.flatMap(({ path, functions }) =>
    functions.filter(({ lines }) => lines > LONGEST_FUNCTION).map(({ name }) => `${path} ${name}`.trim()),
  );
  expect(long.filter((name) => !LONG_FUNCTIONS.includes(name))).toEqual([]);
});
