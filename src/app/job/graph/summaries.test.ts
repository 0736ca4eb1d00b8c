/** The summaries of a job's model, in one process, read by Python. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPython } from '../../../../test/python.js';
import * as tf from '../../tf/index.js';
import { defineJob, type TrainOptions } from '../definition/define-job.js';
import { runInProcess } from '../running/run-local.js';

const BATCHES = 250;
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-summaries-'));
  writeFileSync(join(folder, 'ids.csv'), Array.from({ length: BATCHES }, (_, id) => `${id}\n`).join(''));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Scalars = Readonly<Record<string, readonly (readonly [step: number, value: number])[]>>;
const pythonSees = (directory: string): Promise<Scalars> =>
  askPython(new URL('../testing/read-scalars.py', import.meta.url), { directory });

const rows = () => tf.data.csv(join(folder, '*.csv'), { columns: { id: 'int64' } });

/** Batch n of the input, counted from 0, is the number n. */
const jobOf = (train: Partial<TrainOptions>) =>
  defineJob({
    name: 'summaries',
    input: () => rows().batch(1),
    model({ input: { id } }) {
      const w = tf.variable('w', { shape: [], initializer: 0 });
      const batch = tf.cast(tf.reshape(id, []), 'float32');
      tf.summary.scalar('batch', batch);
      return { loss: w.sub(batch).square(), optimizer: tf.train.sgd(0.1) };
    },
    train: { lastStep: 10_000, ...train },
  });

describe('the summaries of a job in one process', () => {
  it.each([
    ['without checkpoints', {}],
    ['with checkpoints', { checkpoint: { everySecs: 3600 } }],
  ])('are written every 100 steps, of the batch of the step, %s', async (name, train) => {
    const dir = join(folder, name);
    // The input ends: a batch consumed by a summary would cost a step.
    expect((await runInProcess(jobOf(train), { dir })).step).toBe(BATCHES);
    const seen = await pythonSees(join(dir, 'summaries'));
    expect(seen.batch).toEqual([
      [1, 0],
      [101, 100],
      [201, 200],
    ]);
    expect(seen['global_step/sec']?.map(([step]) => step)).toEqual([101, 201]);
  });

  it('are written with the interval and directory of the job', async () => {
    const dir = join(folder, 'often');
    await runInProcess(jobOf({ lastStep: 5, summaries: { everySteps: 2, directory: 'events' } }), { dir });
    expect((await pythonSees(join(dir, 'events'))).batch).toEqual([
      [1, 0],
      [3, 2],
      [5, 4],
    ]);
  });

  it('are not written if the job disables them', async () => {
    const dir = join(folder, 'off');
    await runInProcess(jobOf({ lastStep: 5, summaries: false }), { dir });
    expect(existsSync(dir)).toBe(false);
  });
});

describe('train.summaries', () => {
  it.each([{ everySteps: 0 }, { everySecs: -1 }, { everySteps: 1, everySecs: 1 }])(
    'is refused: %o',
    (summaries) => {
      expect(() => jobOf({ summaries })).toThrow(/train\.summaries/);
    },
  );
});
