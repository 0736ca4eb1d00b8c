/** Jobs in one process: checkpoints, invalid names. */
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DirectoryReader } from '../../../tensorflow/formats/range-reader.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import * as tf from '../../tf/index.js';
import { defineJob } from '../definition/define-job.js';
import { runInProcess } from './run-local.js';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-run-local-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const jobTo = (lastStep: number) =>
  defineJob({
    name: 'alone',
    model() {
      const w = tf.variable('w', { shape: [], initializer: 1 });
      return { loss: w.square(), optimizer: tf.train.sgd(0.1) };
    },
    train: { lastStep, checkpoint: { everySecs: 3600 } },
  });

it('fails immediately if checkpoint files are missing: no other task can have them', async () => {
  await runInProcess(jobTo(3), { dir });
  // As after a run on a cluster: the manifests are here, the shards were on the ps.
  const files = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.data-/.test(name),
  );
  expect(files.length).toBeGreaterThan(0);
  for (const file of files) rmSync(join(dir, file));
  const lines: string[] = [];
  const running = runInProcess(jobTo(6), { dir, log: (line) => lines.push(line) });
  await expect(running).rejects.toMatchObject({ code: expect.stringMatching(/SHOAL_(UNREACHABLE|CORRUPT)/) });
  expect(lines.filter((line) => /waiting for the cluster/.test(line))).toEqual([]);
}, 60_000);

it('keeps as many checkpoints as it should from its start on, also after a kill between a save and the cleanup', async () => {
  const job = (keep: number, lastStep: number, onStep?: () => void) =>
    defineJob({
      ...jobTo(lastStep),
      train: { lastStep, checkpoint: { everySteps: lastStep > 10 ? 100_000 : 1, keep } },
      ...(onStep && { callbacks: { onStep } }),
    });
  const manifests = () => readdirSync(join(dir, 'blobs/alone/manifests')).length;
  for (const lastStep of [3, 6, 9]) await runInProcess(job(100, lastStep), { dir });
  expect(manifests()).toBeGreaterThan(2);
  const seen: number[] = [];
  await runInProcess(
    job(2, 20, () => void seen.push(manifests())),
    { dir },
  );
  expect(new Set(seen)).toEqual(new Set([2]));
}, 60_000);

it('trains to the end again, and saves, if the last checkpoint is damaged', async () => {
  const { step } = await runInProcess(jobTo(40), { dir });
  const data = join(dir, 'checkpoints', `model.ckpt-${step}.data-00000-of-00001`);
  const bytes = readFileSync(data);
  bytes[0]! ^= 1;
  // In place: it is one file with the blob of the store.
  const file = openSync(data, 'r+');
  writeSync(file, bytes);
  closeSync(file);
  const lines: string[] = [];
  const records = join(dir, 'blobs/alone/ends/alone');
  const ends = () => (existsSync(records) ? readdirSync(records) : []);
  expect(ends()).toHaveLength(1);
  // The record of the end would send other workers home while this one trains.
  const seen = new Set<number>();
  const job = defineJob({ ...jobTo(40), callbacks: { onStep: () => void seen.add(ends().length) } });
  const again = await runInProcess(job, { dir, log: (line) => lines.push(line) });
  expect(again.ownSteps, lines.join('\n')).toBeGreaterThan(0);
  expect(seen).toEqual(new Set([0]));
  expect(ends()).toHaveLength(1);
  expect(again.step).toBe(step);
  const { ownSteps } = await runInProcess(jobTo(40), { dir });
  expect(ownSteps).toBe(0);
});

it('names each checkpoint by the step that it contains', async () => {
  const job = defineJob({
    ...jobTo(3000),
    train: { lastStep: 3000, checkpoint: { everySteps: 200, keep: 100 } },
  });
  await runInProcess(job, { dir });
  const directory = join(dir, 'checkpoints');
  const names = readdirSync(directory).flatMap((name) => /^(model\.ckpt-\d+)\.index$/.exec(name)?.[1] ?? []);
  expect(names.length).toBeGreaterThan(3);
  await using reader = new DirectoryReader(directory);
  for (const name of names) {
    const bundle = await BundleReader.open(reader, name);
    const step = new DataView((await bundle.read('global_step')).slice().buffer).getBigInt64(0, true);
    expect(`model.ckpt-${step}`).toBe(name);
  }
});

it.each(['.', '..', '.hidden', 'a/b', ''])('rejects the job name %j', (name) => {
  expect(() => defineJob({ ...jobTo(1), name })).toThrow(/The name of a job/);
});
