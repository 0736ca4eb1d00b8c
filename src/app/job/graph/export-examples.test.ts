/** `export.examples`: a job whose signature takes serialized examples. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { encodeExample } from '../../../tensorflow/formats/example/encode.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { loadSavedModel } from '../../../training/saved-model/index.js';
import * as tf from '../../tf/index.js';
import { defineJob, type ExportOptions } from '../definition/define-job.js';
import { runInProcess } from '../running/run-local.js';

const folder = mkdtempSync(join(tmpdir(), 'shoal-export-examples-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const columns = [
  tf.featureColumn.numericColumn('size', { defaultValue: 2 }),
  tf.featureColumn.categoricalColumnWithVocabularyList('words', ['a', 'b']),
];

const job = (exported: ExportOptions) =>
  defineJob({
    name: 'words',
    input: () => ({
      size: tf.constant([[1], [2]]),
      words: new tf.SparseTensor<'string'>({ indices: [[0, 0]], values: ['a'], denseShape: [2, 1] }),
      label: tf.constant([[1], [0]]),
      scale: tf.constant(3),
    }),
    model({ input: { label, scale, ...features } }) {
      const logits = tf.featureColumn.linearModel(features, columns);
      const loss = tf.losses.sigmoidCrossEntropy(label, logits);
      return { loss, optimizer: tf.train.sgd(1), outputs: { score: logits.mul(scale).reshape([-1]) } };
    },
    train: { lastStep: 3 },
    export: exported as never,
  });

test('the signature takes examples, and the other inputs that the outputs need', async () => {
  const examples = () => tf.featureColumn.makeParseExampleSpec(columns);
  const { exported = '' } = await runInProcess(job({ examples }), { dir: join(folder, 'job') });
  await using model = await loadSavedModel(exported);
  const serve = model.signatures.serving_default!;
  expect(serve.inputs).toEqual({
    examples: expect.objectContaining({ dtype: 'string', shape: [null] }),
    scale: expect.anything(),
  });
  const bytes = [encodeExample({ size: [0], words: ['a', 'b'] }), encodeExample({})];
  const [both, missing] = (
    (await serve({ examples: Tensor.of(bytes, { dtype: 'string' }), scale: 1 })).score as Tensor
  ).toArray() as number[];
  const [tripled] = (
    (await serve({ examples: Tensor.of(bytes, { dtype: 'string' }), scale: 3 })).score as Tensor
  ).toArray() as number[];
  expect(tripled).toBeCloseTo(3 * (both ?? 0), 5);
  expect(missing).not.toBeCloseTo(both ?? 0, 3);
});

test.each<[string, ExportOptions, RegExp]>([
  [
    'a feature that is no input',
    { examples: { other: tf.varLenFeature('string') } },
    /'other', which is no input/,
  ],
  [
    'another type',
    { examples: { size: tf.fixedLenFeature([1], 'int64') } },
    /dense int64; the model takes dense float32/,
  ],
  [
    'dense words',
    { examples: { words: tf.fixedLenFeature([1], 'string') } },
    /dense string; the model takes sparse string/,
  ],
  ['signatures too', { examples: {}, signatures: () => ({}) }, /both examples and signatures/],
])('%s: an error before training', async (_, exported, message) => {
  await expect((async () => runInProcess(job(exported), { dir: join(folder, 'wrong') }))()).rejects.toThrow(
    message,
  );
});
