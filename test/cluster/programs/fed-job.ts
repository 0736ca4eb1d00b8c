/** Trains on records from JavaScript, as a job without checkpoints: after a loss it starts from the beginning. */

import { defineJob, tf } from 'shoal';
import type { Output } from '../../../src/tensorflow/graph/operation.js';
import { counted, fedRecords } from './fed-records.js';
import { timesApplied } from './times-applied.js';

export default defineJob({
  name: 'fed',
  input: () => fedRecords(),
  model({ input }) {
    const { counts, loss } = counted(input.id as Output<'int64'>);
    return { loss, optimizer: tf.train.sgd(1), outputs: { counts: timesApplied(counts) } };
  },
  train: { lastStep: 1_000_000_000, inflight: 2, logEverySecs: 1 },
});
