/** A Keras-like model as a job on a cluster: 1 ps and 2 workers train it, the evaluator evaluates it, the chief exports it. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import { loadSavedModel } from '../../src/training/saved-model/loading/loader.js';
import { shoal } from './shoal-process.js';

const JOB = `
  import { defineJob, tf } from 'shoal';

  const model = new tf.keras.Sequential([
    tf.keras.layers.dense(16, { activation: 'relu' }),
    tf.keras.layers.batchNorm(),
    tf.keras.layers.dropout(0.1),
    tf.keras.layers.dense(3, { activation: 'softmax' }),
  ]).compile({
    optimizer: tf.train.adam(0.01),
    loss: 'sparseCategoricalCrossentropy',
    metrics: ['accuracy'],
  });

  /** The class is the largest of the three first elements. */
  const examples = () => {
    const x = tf.randomUniform([64, 6]);
    return { x, y: x.slice([0, 0], [64, 3]).argMax(1, 'int32') };
  };

  export default defineJob(
    model.toJob({
      name: 'largest',
      input: examples,
      train: { lastStep: 400, checkpoint: { everySecs: 60 } },
      evaluate: { batches: 10 },
      export: {},
    }),
  );`;

let scratch: string;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-keras-'));
  writeFileSync(join(scratch, 'job.ts'), JOB);
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

test('a model trains on 1 ps and 2 workers, is evaluated and exported', async () => {
  const { code, stdout, stderr } = await shoal(['run', 'job.ts', '--ps', '1', '--workers', '2'], {
    cwd: scratch,
  });
  expect(code, `${stdout}${stderr}`).toBe(0);
  // On a slow machine an early checkpoint is evaluated too.
  const [, accuracy] = [...stdout.matchAll(/accuracy = ([\d.]+)/g)].at(-1) ?? [];
  expect(Number(accuracy)).toBeGreaterThan(0.75);
  const exports = join(scratch, '.shoal/largest/worker-0/export');
  await using model = await loadSavedModel(join(exports, readdirSync(exports).sort().at(-1)!));
  const x = [
    [0.9, 0.1, 0.2, 0.5, 0.5, 0.5],
    [0.1, 0.9, 0.2, 0.1, 0.5, 0.9],
    [0.2, 0.1, 0.9, 0.5, 0.1, 0.5],
  ];
  const { prediction } = await model.signatures.serving_default!({ x });
  const classes = (prediction as Tensor).toArray() as number[][];
  expect(classes.map((row) => row.indexOf(Math.max(...row)))).toEqual([0, 1, 2]);
});
