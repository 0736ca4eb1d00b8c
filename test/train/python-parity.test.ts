/**
 * Compares the models of the examples, trained on a cluster, with the same programs in Python TensorFlow, with the same
 * initial values and batches. In synchronous training every loss equals Python's; in asynchronous training the curves
 * agree up to the order of updates.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import line from '../../examples/linear-regression/job.js';
import { classify, FEATURES, variables } from '../../examples/sparse-linear/model.js';
import { writeSparseExamples } from '../../examples/sparse-linear/sparse-examples.js';
import type { JobDefinition } from '../../src/app/job/definition/define-job.js';
import { defineJob, tf } from '../../src/index.js';
import { askPython } from '../python.js';
import { PS, type Trained, trainOnCluster, WORKERS } from './losses.js';

const STEPS = 40;
const [POINTS, BATCH, FEATURE_COUNT] = [100, 50, 20_000];
const LIMIT_MS = 300_000;

/** Each worker has its own points, the same in every run. */
const points = Array.from({ length: WORKERS }, (_, worker) =>
  Array.from({ length: POINTS }, (_, i) => Math.fround(((i + 1 + worker * POINTS) * 0.6180339887) % 1)),
);

const lineJob = (sync: boolean): JobDefinition => ({
  ...line,
  input: ({ index }) => {
    const x = Float32Array.from(points[index] ?? []);
    return { x: tf.constant(x), y: tf.constant(x.map((point) => 0.1 * point + 0.3)) };
  },
  train: { lastStep: STEPS, sync },
});

const sparseJob = (files: readonly string[], sync: boolean): JobDefinition =>
  defineJob({
    name: 'sparse-linear',
    input: ({ index }) =>
      tf.data
        .tfRecord(files[index] as string)
        .batch(BATCH)
        .parseExample(FEATURES)
        .prefetch(2),
    model({ input }) {
      const model = variables(FEATURE_COUNT, PS);
      return {
        loss: classify(model, input).loss,
        optimizer: tf.train.ftrl(0.01),
        outputs: { bias: model.bias },
      };
    },
    train: { lastStep: STEPS, sync },
  });

interface Answer {
  /** The mean of the workers' losses, step by step. */
  readonly sync: readonly number[];
  /** The losses with the steps of the workers in turn. */
  readonly async: readonly number[];
}

let directory: string;
let files: string[];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shoal-parity-'));
  files = await writeSparseExamples({
    directory,
    records: WORKERS * STEPS * BATCH,
    files: WORKERS,
    features: FEATURE_COUNT,
    idsPerRecord: 20,
  });
});

afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

const meanOfWorkers = ({ losses }: Trained): number[] =>
  (losses[0] ?? []).map((_, step) => mean(losses.map((own) => own[step] ?? Number.NaN)));
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
const lastTenth = (values: readonly number[]): number => mean(values.slice(-Math.ceil(values.length / 10)));

function expectSame(ours: readonly number[], theirs: readonly number[]): void {
  expect(ours).toHaveLength(theirs.length);
  const apart = ours.map((loss, step) => Math.abs(loss / (theirs[step] ?? Number.NaN) - 1));
  const worst = apart.reduce((a, b) => (b > a || Number.isNaN(b) ? b : a), 0);
  expect(worst, `worst at step ${apart.indexOf(worst)}`).toBeLessThan(1e-5);
}

const expectNear = (ours: number, theirs: number): void =>
  expect(Math.abs(ours / theirs - 1), `${ours} beside ${theirs}`).toBeLessThan(0.1);

describe.each(['grpc', 'direct'] as const)('losses with the engine %s compared with Python', (engine) => {
  it('linear model: equal losses when synchronous, the same curve when asynchronous', {
    timeout: LIMIT_MS,
  }, async () => {
    const together = await trainOnCluster(lineJob(true), STEPS, engine);
    const freely = await trainOnCluster(lineJob(false), STEPS, engine);
    const start = (trained: Trained) => (trained.first.W as number[])[0];
    const python = await askPython<Answer>(
      new URL('./python-parity.py', import.meta.url),
      { points, steps: STEPS, sync: start(together), async: start(freely) },
      ['line'],
    );
    expectSame(meanOfWorkers(together), python.sync);
    expectNear(lastTenth(freely.inOrder), lastTenth(python.async));
    expect(lastTenth(python.sync)).toBeLessThan(0.9 * (python.sync[0] ?? 0));
  });

  it('sparse model: equal losses when synchronous, the same curve when asynchronous', {
    timeout: LIMIT_MS,
  }, async () => {
    const together = await trainOnCluster(sparseJob(files, true), STEPS, engine);
    const freely = await trainOnCluster(sparseJob(files, false), STEPS, engine);
    const python = await askPython<Answer>(
      new URL('./python-parity.py', import.meta.url),
      { files, steps: STEPS, batch: BATCH, features: FEATURE_COUNT },
      ['sparse'],
    );
    expectSame(meanOfWorkers(together), python.sync);
    expectNear(lastTenth(freely.inOrder), lastTenth(python.async));
    expect(lastTenth(python.sync)).toBeLessThan(0.99 * (python.sync[0] ?? 0));
  });
});
