/** Trains on records of files, leased to the workers, with a summary of each batch. */
import { defineJob, tf } from 'shoal';

const { COUNT_FILES = '', SAVE_SECS } = process.env;

export default defineJob({
  name: 'summarised',
  input: () =>
    tf.data
      .tfRecord(COUNT_FILES)
      .batch(2)
      .parseExample({ id: tf.data.fixedLenFeature([], 'int64') }),
  model({ input: { id } }) {
    const w = tf.variable('w', { shape: [], initializer: 0 });
    const first = tf.min(tf.cast(id, 'float32'));
    tf.summary.scalar('first', first);
    return { loss: w.sub(first).square(), optimizer: tf.train.sgd(0.001) };
  },
  train: {
    lastStep: 1_000_000,
    summaries: { everySteps: 10 },
    ...(SAVE_SECS ? { checkpoint: { everySecs: Number(SAVE_SECS) } } : {}),
  },
});
