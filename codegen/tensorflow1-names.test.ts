/** The list of TensorFlow 1's names is the one of the pinned TensorFlow. */
import { expect, test } from 'vitest';
import { askPython } from '../test/python.js';
import { readNames } from './migration.js';

test('curation/tensorflow1-names.json lists the names of tf.compat.v1', async () => {
  const program = new URL('./tensorflow1-names.py', import.meta.url);
  expect(readNames()).toEqual(await askPython(program));
});
