/** The wide-and-deep example on a cluster with an evaluator, with both engines; TensorFlow serves its exports. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodeExample } from '../../src/tensorflow/formats/example/encode.js';
import { DirectoryReader } from '../../src/tensorflow/formats/range-reader.js';
import { BundleReader } from '../../src/tensorflow/formats/tensor-bundle/bundle-reader.js';
import { readTFRecords } from '../../src/tensorflow/formats/tfrecord/reader.js';
import { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import { loadSavedModel } from '../../src/training/saved-model/index.js';
import { type ShoalProcess, startShoal } from '../cli/shoal-process.js';
import { askPython } from '../python.js';
import { ROOT, startNode } from '../setup/run-setup.js';

const ORACLE = new URL('../../src/training/saved-model/testing/oracle.py', import.meta.url);
const EXAMPLE = join(ROOT, 'examples/wide-deep');
const STEPS = 300;

let folder: string;
let data: string;
const started: ShoalProcess[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-wide-deep-'));
  data = join(folder, 'data');
  const made = await startNode(
    ['--import', 'tsx', join(EXAMPLE, 'generate.ts'), '--out', data, '--records', '8000'],
    {},
  ).ended;
  expect(made.code, made.stderr).toBe(0);
}, 120_000);

afterAll(async () => {
  for (const { child } of started) child.kill('SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  rmSync(folder, { recursive: true, force: true });
});

/** Trains on a cluster; returns the directories of the chief and the evaluator. */
async function train(engine: string, steps: number): Promise<readonly [chief: string, evaluator: string]> {
  const cwd = mkdtempSync(join(folder, `${engine}-`));
  const run = startShoal(
    [
      ...['run', join(EXAMPLE, 'job.ts'), '--ps', '2', '--workers', '2', '--engine', engine],
      ...['--', '--data', data, '--steps', String(steps)],
    ],
    { cwd },
  );
  started.push(run);
  const code = await run.ended;
  expect(code, run.output.stdout + run.output.stderr).toBe(0);
  return [join(cwd, '.shoal/wide-deep/worker-0'), join(cwd, '.shoal/wide-deep/evaluator-0')];
}

async function examples(): Promise<Uint8Array[]> {
  // Words that the vocabularies do not have, and no interests.
  const made = [encodeExample({ age: Float32Array.of(33), city: ['nowhere'], occupation: ['pilot'] })];
  for await (const bytes of readTFRecords(join(data, 'valid.tfrecord'))) {
    made.push(Uint8Array.from(bytes));
    if (made.length === 20) break;
  }
  return made;
}

const exportedIn = (dir: string): string =>
  join(
    dir,
    readdirSync(dir)
      .filter((name) => /^\d+$/.test(name))
      .at(-1) as string,
  );

test('learns, and TensorFlow computes the same scores from serialized examples', async () => {
  const [chief, evaluator] = await train('direct', STEPS);
  const [best] = JSON.parse(readFileSync(join(evaluator, 'best/best.json'), 'utf8')) as [{ value: number }];
  expect(best.value).toBeGreaterThan(0.58);
  const dirs = [exportedIn(join(chief, 'export')), exportedIn(join(evaluator, 'export/best'))];
  // The exports contain the vocabulary.
  rmSync(join(data, 'interests.txt'));
  const serialized = await examples();
  const inputs = { examples: serialized.map((bytes) => Buffer.from(bytes).toString('latin1')) };
  const answers = await askPython<{ score: number[] }[]>(
    ORACLE,
    dirs.map((dir) => ({ how: 'v2', dir, signature: 'serving_default', inputs })),
  );
  for (const [i, dir] of dirs.entries()) {
    await using model = await loadSavedModel(dir);
    const { score } = await model.signatures.serving_default!({
      examples: Tensor.of(serialized, { dtype: 'string' }),
    });
    const scores = (score as Tensor).toArray() as number[];
    expect(new Set(scores).size).toBeGreaterThan(10);
    for (const [at, value] of scores.entries()) expect(answers[i]?.score[at]).toBeCloseTo(value, 5);
  }
}, 600_000);

test('trains partitioned tables with each optimizer on the engine grpc too', async () => {
  const made = await startNode(
    ['--import', 'tsx', join(EXAMPLE, 'generate.ts'), '--out', data, '--records', '8000'],
    {},
  ).ended;
  expect(made.code, made.stderr).toBe(0);
  const [chief] = await train('grpc', 40);
  const checkpoints = join(chief, 'checkpoints');
  const state = readFileSync(join(checkpoints, 'checkpoint'), 'utf8');
  const [, name = ''] = /model_checkpoint_path: "(?:.*\/)?([^"/]+)"/.exec(state) ?? [];
  await using files = new DirectoryReader(checkpoints);
  const bundle = await BundleReader.open(files, name);
  const table = 'deep/input/input_layer/interests_weighted_by_interest_weights_embedding/embedding_weights';
  expect(bundle.tensor(table).shape).toEqual([255, 16]);
  expect(bundle.tensor(`${table}/Adagrad`).shape).toEqual([255, 16]);
  expect(bundle.tensor('wide/linear_model/age_bucketized_X_city/weights').shape).toEqual([5000, 1]);
  expect(bundle.tensor('wide/linear_model/age_bucketized_X_city/weights/Ftrl_1').shape).toEqual([5000, 1]);
}, 600_000);
