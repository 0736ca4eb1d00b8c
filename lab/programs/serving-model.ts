/** Writes version 1 of a model of so many megabytes to a directory: rows of a table, which a request sums. */
import { join } from 'node:path';
import { writeModel } from '../../src/app/serving/testing/models.js';
import { tf } from '../../src/index.js';
import { predictSignatureDef } from '../../src/training/saved-model/index.js';

const [directory = '', megabytes = '1'] = process.argv.slice(2);
const WIDTH = 64;
const rows = Math.max(1, Math.round((Number(megabytes) * 1e6) / (4 * WIDTH)));

await writeModel(join(directory, '1'), () => {
  const table = tf.variable('table', { shape: [rows, WIDTH], initializer: tf.onesInitializer() });
  const ids = tf.placeholder({ dtype: 'int64', shape: [null, 16], name: 'ids' });
  const sums = tf.sum(tf.gather(table, ids), { axis: [1, 2] });
  return { signatures: { serving_default: predictSignatureDef({ inputs: { ids }, outputs: { sums } }) } };
});
