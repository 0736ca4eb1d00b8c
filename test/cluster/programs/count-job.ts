/**
 * Counts on the ps how often each record was applied, in two tables on two ps: a gradient step at rate 1 adds one for
 * each record of its batch.
 */
import { defineJob, tf } from 'shoal';
import { slowly } from './slowly.js';
import { timesApplied } from './times-applied.js';

const { COUNT_FILES = '', COUNT_RECORDS = '0', COUNT_EPOCHS = '1' } = process.env;
const { COUNT_INFLIGHT = '1', COUNT_SAVE_SECS = '', COUNT_BATCH = '4' } = process.env;
const records = Number(COUNT_RECORDS);
const batchSize = Number(COUNT_BATCH);
const epochs = Number(COUNT_EPOCHS);
const ID = { id: tf.data.fixedLenFeature([], 'int64') };

const shards = tf.data.shards({
  files: COUNT_FILES,
  batchSize,
  recordsPerShard: 20,
  epochs,
  shuffle: 16,
  seed: 7,
  parallel: 1,
  parse: (serialized) => tf.data.parseExample(slowly(serialized), ID),
});

/** A plain dataset: leasing is the default. */
const dataset = () =>
  tf.data.tfRecord(COUNT_FILES).shuffle(16).repeat(epochs).batch(batchSize).map(slowly).parseExample(ID);

export default defineJob({
  name: 'count',
  input: process.env.COUNT_INPUT === 'dataset' ? dataset : () => shards,
  model({ input }) {
    const table = (name: string) =>
      tf.variable(name, { shape: [records], initializer: tf.zerosInitializer() });
    const tables = { a: table('a'), b: table('b') };
    const loss = tables.a.gather(input.id).sum().add(tables.b.gather(input.id).sum()).neg();
    const outputs = { a: timesApplied(tables.a), b: timesApplied(tables.b) };
    return { loss, optimizer: tf.train.sgd(1), outputs };
  },
  train: {
    lastStep: 1_000_000_000,
    inflight: Number(COUNT_INFLIGHT),
    logEverySecs: 1,
    ...(process.env.COUNT_ELASTIC ? { elastic: true } : {}),
    ...(COUNT_SAVE_SECS === '' ? {} : { checkpoint: { everySecs: Number(COUNT_SAVE_SECS), keep: 2 } }),
  },
});
