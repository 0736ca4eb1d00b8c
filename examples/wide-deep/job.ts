/**
 * Click prediction with a wide and deep model: the wide part is trained with FTRL, the deep part with Adagrad. The
 * signature of the export takes serialized examples.
 *
 *   npx tsx examples/wide-deep/generate.ts --out data
 *   npx shoal run examples/wide-deep/job.ts --ps 2 --workers 2 -- --data "$PWD/data"
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { defineJob, tf } from 'shoal';
import { columns, examplesOf, logits } from './model.js';

const { values: flags } = parseArgs({
  options: {
    data: { type: 'string', default: 'data' },
    steps: { type: 'string', default: '1000' },
    epochs: { type: 'string', default: '10' },
    batch: { type: 'string', default: '200' },
    parts: { type: 'string', default: '2' },
  },
  strict: false,
}) as { values: Record<string, string> };
const file = (name: string): string => join(flags.data as string, name);

const model = columns(file('interests.txt'));
const examples = examplesOf(model);
const parse = { ...examples, clicked: tf.fixedLenFeature([1], 'float32') };

export default defineJob({
  name: 'wide-deep',
  input: tf.data.shards({
    files: file('train-*.tfrecord'),
    batchSize: Number(flags.batch),
    epochs: Number(flags.epochs),
    shuffle: 10_000,
    parse,
  }),
  model({ input }) {
    const { clicked, ...features } = input;
    const scores = logits(features, model, Number(flags.parts));
    return {
      loss: tf.losses.sigmoidCrossEntropy(clicked, scores),
      optimizer: [
        { variables: /^wide\//, use: tf.train.ftrl(0.1, { l1RegularizationStrength: 0.001 }) },
        { variables: /^deep\//, use: tf.train.adagrad(0.05) },
      ],
      outputs: { score: tf.sigmoid(scores).reshape([-1]) },
    };
  },
  train: {
    lastStep: Number(flags.steps),
    checkpoint: { everySecs: 10 },
    earlyStopping: { metric: 'eval/auc', patience: 5, restoreBest: true },
  },
  evaluate: {
    input: () =>
      tf.data
        .tfRecord([file('valid.tfrecord')])
        .batch(500)
        .parseExample(parse),
    metrics: ({ input, outputs }) => ({
      auc: tf.metrics.auc(input.clicked.reshape([-1]), outputs.score),
    }),
    pollSecs: 1,
    best: { metric: 'auc', mode: 'max' },
  },
  export: { examples, best: { metric: 'auc', mode: 'max' } },
});
