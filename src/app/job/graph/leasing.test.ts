/** Which input of a job is leased, and the log line about it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as tf from '../../tf/index.js';
import { defineJob, type Replica, type TrainOptions } from '../definition/define-job.js';
import { runInProcess } from '../running/run-local.js';
import { buildTrainingGraph } from './training-graph.js';

const IDS = 25;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-leasing-'));
  writeFileSync(join(folder, 'ids.csv'), Array.from({ length: IDS }, (_, id) => `${id}\n`).join(''));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const rows = () => tf.data.csv(join(folder, '*.csv'), { columns: { id: 'int64' } });

/** Counts how often each id is used: a step of descent at rate 1 adds one. */
const jobOf = (input: (replica: Replica) => ReturnType<typeof rows>, train: Partial<TrainOptions> = {}) =>
  defineJob({
    name: 'leasing',
    input,
    model({ input: { id } }) {
      const counts = tf.variable('counts', { shape: [IDS], initializer: tf.zerosInitializer() });
      return { loss: counts.gather(id).sum().neg(), optimizer: tf.train.sgd(1), outputs: { counts } };
    },
    train: { lastStep: 1000, ...train },
  });

const graphFor = (workers: number, ...of: Parameters<typeof jobOf>) =>
  buildTrainingGraph(jobOf(...of), { index: 0, count: workers, device: null });

const batches = () => rows().batch(4);

describe('a dataset of files', () => {
  test('is leased to several workers, and the chief logs how to disable that', () => {
    expect(graphFor(2, batches).shards?.hint).toMatch(/'whole' } lets every worker read all/);
  });

  test('is read completely by a single worker', () => {
    const { shards, inputLine } = graphFor(1, batches);
    expect([shards, inputLine]).toEqual([undefined, undefined]);
  });

  test.each<[string, Parameters<typeof jobOf>, RegExp]>([
    ['if the job requests it', [batches, { input: 'whole' }], /train\.input is 'whole'/],
    ['if it cannot be leased', [() => rows().take(9).batch(4)], /cannot be leased: .*take\(\)/],
    ['in synchronous training', [batches, { sync: true }], /steps are synchronous/],
  ])('is read completely by every worker, which is logged: %s', (_, of, line) => {
    const { shards, inputLine } = graphFor(2, ...of);
    expect(shards).toBeUndefined();
    expect(inputLine).toMatch(/^every worker reads all of it/);
    expect(inputLine).toMatch(line);
  });

  test('that depends on the replica is not leased, unless the job requests shards', () => {
    const own = ({ index }: Replica) => rows().batch(4 + index);
    const { shards, inputLine } = graphFor(2, own);
    expect([shards, inputLine]).toEqual([
      undefined,
      'every worker reads its own input: it depends on the replica',
    ]);
    expect(graphFor(2, own, { input: 'shards' }).shards).toBeDefined();
  });

  test('that must be leased and cannot be is an error', () => {
    expect(() => graphFor(2, () => rows().take(9).batch(4), { input: 'shards' })).toThrow(/take\(\)/);
  });

  test('yields every record once per repeat when it is leased', async () => {
    const lines: string[] = [];
    const job = jobOf(() => rows().shuffle(5).repeat(3).batch(4), { input: 'shards' });
    const { outputs } = await runInProcess(job, { log: (line) => lines.push(line) });
    expect(outputs.counts).toEqual(Array(IDS).fill(3));
    expect(lines[0]).toBe('input: 25 records of 1 file as 1 shard, 3 times, leased by the chief');
  });
});

test("leased input refuses recovery: 'partial', and names the other mode", async () => {
  const job = jobOf(batches, { input: 'shards', recovery: 'partial' });
  await expect(runInProcess(job, { dir: join(folder, 'partial') })).rejects.toMatchObject({
    code: 'SHOAL_CONFIG',
    message: expect.stringContaining('leased input cannot use recovery'),
    hint: expect.stringContaining("recovery: 'exact'"),
  });
});

test('the input of an elastic job is leased, also with one worker; an input that cannot be is refused', () => {
  expect(graphFor(1, batches, { elastic: true }).shards).toBeDefined();
  expect(() => graphFor(1, () => rows().take(9).batch(4), { elastic: true })).toThrow(
    expect.objectContaining({ code: 'SHOAL_CONFIG', message: expect.stringMatching(/not leased.*take\(\)/) }),
  );
});
