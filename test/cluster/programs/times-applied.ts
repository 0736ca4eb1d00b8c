/** A histogram of a table of counters: how many are 0, how many are 1, up to 4. */
import * as tf from '../../../src/app/tf/index.js';
import type { Variable } from '../../../src/tensorflow/variables/variable.js';

export const timesApplied = (table: Variable<'float32'>) =>
  tf.raw.bincount(tf.cast(table, 'int32'), 5, tf.constant([], { dtype: 'float32', shape: [0] }));
