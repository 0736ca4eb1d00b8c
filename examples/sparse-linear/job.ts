/**
 * Scenario 001 as a job: a sparse classifier, partitioned over the ps. The workers lease ranges of the files' records,
 * so that every record is used once in each epoch, whichever task dies. All workers must see the files under the same
 * path.
 *
 *   npx shoal run examples/sparse-linear/job.ts --ps 2 --workers 2 -- --train "$PWD/data/train*" --features 1000000
 */
import { parseArgs } from 'node:util';
import { defineJob, tf } from 'shoal';
import { classify, FEATURES, variables } from './model.js';

const { values: flags } = parseArgs({
  options: {
    train: { type: 'string', default: 'data/train*.tfrecord' },
    features: { type: 'string', default: '30000000' },
    parts: { type: 'string', default: '2' },
    batch: { type: 'string', default: '1000' },
    epochs: { type: 'string', default: '2' },
    steps: { type: 'string', default: '1000000000' },
    inflight: { type: 'string', default: '1' },
    'save-secs': { type: 'string', default: '60' },
  },
  strict: false,
}) as { values: Record<string, string> };

export default defineJob({
  name: 'sparse-linear',
  input: tf.data.shards({
    files: flags.train as string,
    batchSize: Number(flags.batch),
    epochs: Number(flags.epochs),
    shuffle: 10_000,
    parse: FEATURES,
  }),
  model({ input }) {
    const model = variables(Number(flags.features), Number(flags.parts));
    const { loss } = classify(model, input);
    return { loss, optimizer: tf.train.ftrl(0.01), outputs: { bias: model.bias } };
  },
  train: {
    lastStep: Number(flags.steps),
    inflight: Number(flags.inflight),
    checkpoint: { everySecs: Number(flags['save-secs']), keep: 2 },
  },
});
