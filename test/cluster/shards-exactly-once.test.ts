/** Data shards on a real cluster: whoever is killed, every record is in the model once for each epoch. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sleep } from '../../src/async/deadline.js';
import { writeIdRecords } from '../../src/input/testing/id-records.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

const FILES = 3;
const PER_FILE = 100;
const RECORDS = FILES * PER_FILE;
const EPOCHS = 2;
const KILLS = 3;
/** A bound against hanging; a run takes a tenth of it on an idle machine. */
const TIMEOUT = 280_000;

let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-exactly-once-'));
  await writeIdRecords(folder, 'records', { files: FILES, perFile: PER_FILE });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A row of numbers in [0, 1) that is the same in every run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Holds every batch back for so long. */
const pace = (name: string, ms: number) => writeFileSync(join(folder, `${name}.pace`), String(1000 * ms));

function cluster(name: string, ps: number, workers: number, env: NodeJS.ProcessEnv = {}) {
  // A test that is repeated must not find the checkpoints of its first attempt.
  rmSync(join(folder, name), { recursive: true, force: true });
  return TaskProcesses.create('count-job.ts', ps, workers, {
    COUNT_PACE: join(folder, `${name}.pace`),
    TASKS_ROOT: join(folder, name),
    COUNT_FILES: join(folder, 'records-*'),
    COUNT_RECORDS: String(RECORDS),
    COUNT_EPOCHS: String(EPOCHS),
    ...env,
  });
}

/** How many records were applied 0 times, how many once, up to 4 times, by the two tables. */
function timesApplied(chief: TaskProcess): Record<string, unknown> {
  const line = /done at step.*$/m.exec(chief.output())?.[0] ?? '';
  const countsOf = (name: string) =>
    JSON.parse(new RegExp(`${name} = (\\[[^\\]]*\\])`).exec(line)?.[1] ?? 'null');
  return { a: countsOf('a'), b: countsOf('b') };
}

const EVERY_EPOCH = [0, 1, 2, 3, 4].map((times) => (times === EPOCHS ? RECORDS : 0));
const ALL_ONCE_AN_EPOCH = { a: EVERY_EPOCH, b: EVERY_EPOCH };

describe('every record is applied once in each epoch', () => {
  test('by three workers of which two are killed at random', { timeout: TIMEOUT }, async () => {
    pace('workers', 1000);
    await using tasks = await cluster('workers', 2, 3, { COUNT_SAVE_SECS: '1' });
    const random = seeded(3);
    tasks.start('ps', 0);
    tasks.start('ps', 1);
    const chief = tasks.start('worker', 0);
    let isOver = false;
    void chief.exit.then(() => {
      isOver = true;
    });
    let kills = 0;
    const haunt = async (index: number) => {
      while (!isOver) {
        const worker = tasks.start('worker', index);
        const ended = worker.exit.then(() => undefined);
        await Promise.race([worker.said(/step \d+ of/, 120_000).catch(() => undefined), ended, chief.exit]);
        if (kills >= KILLS) return ended;
        await Promise.race([sleep(300 + 1200 * random()), chief.exit]);
        if (isOver) return;
        kills += 1;
        worker.child.kill('SIGKILL');
        await ended;
        if (kills >= KILLS) pace('workers', 0);
      }
    };
    await Promise.all([haunt(1), haunt(2), chief.exit]);
    expect(timesApplied(chief)).toEqual(ALL_ONCE_AN_EPOCH);
    expect(kills).toBeGreaterThan(1);
  });

  test('with a ps lost in the middle: all go back to a checkpoint', { timeout: TIMEOUT }, async () => {
    pace('ps', 1000);
    await using tasks = await cluster('ps', 2, 2, { COUNT_SAVE_SECS: '1', COUNT_INFLIGHT: '2' });
    tasks.start('ps', 0);
    const lost = tasks.start('ps', 1);
    const chief = tasks.start('worker', 0);
    const worker = tasks.start('worker', 1);
    await chief.said(/saved model.ckpt-[1-9]/, 120_000);
    lost.child.kill('SIGKILL');
    await lost.exit;
    pace('ps', 0);
    tasks.start('ps', 1);
    await chief.exit;
    expect(chief.output()).toMatch(/variables were lost: all go back to model.ckpt-/);
    expect(timesApplied(chief)).toEqual(ALL_ONCE_AN_EPOCH);
    // A worker that is done stays for the last checkpoint: its disk has the same as the others, and no older ones.
    expect(await worker.exit).toBe(0);
    const kept = (task: string) => readdirSync(join(folder, 'ps', task, 'blobs/count/manifests')).sort();
    expect(kept('worker-1')).toEqual(kept('worker-0'));
    expect(kept('worker-1').length).toBeLessThanOrEqual(2);
  });

  test('of a plain dataset of files, in batches that shards are no multiple of', {
    timeout: TIMEOUT,
  }, async () => {
    pace('dataset', 500);
    await using tasks = await cluster('dataset', 2, 2, { COUNT_INPUT: 'dataset', COUNT_BATCH: '7' });
    tasks.start('ps', 0);
    tasks.start('ps', 1);
    const chief = tasks.start('worker', 0);
    const worker = tasks.start('worker', 1);
    await worker.said(/step \d+ of/, 120_000);
    worker.child.kill('SIGKILL');
    await worker.exit;
    pace('dataset', 0);
    await chief.exit;
    expect(chief.output()).toMatch(
      /input: 300 records of 3 files as 9 shards, 2 times, leased by the chief; train: { input: 'whole' }/,
    );
    expect(timesApplied(chief)).toEqual(ALL_ONCE_AN_EPOCH);
  });

  test('with a step that one ps has and the other has not: all go back', { timeout: TIMEOUT }, async () => {
    // Slow at first: on a busy machine the chief alone must not reach the end before the worker has started.
    pace('part', 1000);
    await using tasks = await cluster('part', 2, 2, {
      // Seldom: a worker that rests for a save makes no step.
      COUNT_SAVE_SECS: '5',
      COUNT_BATCH: '6',
      // A ps that is stopped for a while is not to be taken for lost.
      SHOAL_DEAD_AFTER_MS: '60000',
    });
    const ps = [tasks.start('ps', 0), tasks.start('ps', 1)] as const;
    const chief = tasks.start('worker', 0);
    const killAmid = async (): Promise<boolean> => {
      const worker = tasks.start('worker', 1);
      await chief.said(/saved model.ckpt-[1-9]/, 120_000);
      await worker.said(/step \d+ of/, 120_000);
      // A step of the worker is made on the one ps, and waits for the other.
      ps[1].child.kill('SIGSTOP');
      await sleep(4000);
      worker.child.kill('SIGKILL');
      await worker.exit;
      ps[1].child.kill('SIGCONT');
      return chief.said(/applied in part: all go back to the newest checkpoint/, 15_000).then(
        () => true,
        () => false,
      );
    };
    // A worker that was at rest, or between two steps, leaves nothing in part.
    expect((await killAmid()) || (await killAmid()) || (await killAmid())).toBe(true);
    pace('part', 0);
    await chief.exit;
    expect(timesApplied(chief)).toEqual(ALL_ONCE_AN_EPOCH);
  });

  test('with the chief lost in the middle: its heir goes back with all', { timeout: TIMEOUT }, async () => {
    pace('chief', 1000);
    await using tasks = await cluster('chief', 1, 2, { COUNT_SAVE_SECS: '1' });
    tasks.start('ps', 0);
    const first = tasks.start('worker', 0);
    tasks.start('worker', 1);
    await first.said(/saved model.ckpt-[1-9]/, 120_000);
    first.child.kill('SIGKILL');
    await first.exit;
    pace('chief', 0);
    const heir = tasks.start('worker', 0);
    await heir.exit;
    expect(heir.output()).toMatch(/an earlier chief had the ledger: all go back/);
    expect(timesApplied(heir)).toEqual(ALL_ONCE_AN_EPOCH);
  });
});
