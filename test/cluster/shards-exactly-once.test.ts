/** Data shards on a real cluster: whichever task is killed, every record is applied once per epoch. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sleep } from '../../src/base/async/deadline.js';
import { DEFAULT_ENGINE } from '../../src/distributed/cluster/spec/config.js';
import { writeIdRecords } from '../../src/training/input/testing/id-records.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

const FILES = 3;
const PER_FILE = 100;
const RECORDS = FILES * PER_FILE;
const EPOCHS = 2;
const KILLS = 3;
/** Only detects hangs; a run takes a tenth of it on an idle machine. */
const TIMEOUT = 280_000;

let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-exactly-once-'));
  await writeIdRecords(folder, 'records', { files: FILES, perFile: PER_FILE });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A reproducible sequence of numbers in [0, 1). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** For each of the two tables, how many records were applied 0, 1, … 4 times. */
function timesApplied(chief: TaskProcess): Record<string, unknown> {
  const line = /done at step.*$/m.exec(chief.output())?.[0] ?? '';
  const countsOf = (name: string) =>
    JSON.parse(new RegExp(`${name} = (\\[[^\\]]*\\])`).exec(line)?.[1] ?? 'null');
  return { a: countsOf('a'), b: countsOf('b') };
}

const EVERY_EPOCH = [0, 1, 2, 3, 4].map((times) => (times === EPOCHS ? RECORDS : 0));
const ALL_ONCE_AN_EPOCH = { a: EVERY_EPOCH, b: EVERY_EPOCH };

const ENGINES = ['grpc', 'direct'] as const;

describe.each(ENGINES)('engine %s: every record is applied once in each epoch', (engine) => {
  /** The directory of a test; each engine has its own. */
  const placeOf = (name: string) => join(folder, `${engine}-${name}`);

  /** Delays every batch. */
  const pace = (name: string, ms: number) => writeFileSync(`${placeOf(name)}.pace`, String(1000 * ms));

  function cluster(name: string, ps: number, workers: number, env: NodeJS.ProcessEnv = {}) {
    // A test that is repeated must not find the checkpoints of its first attempt.
    rmSync(placeOf(name), { recursive: true, force: true });
    return TaskProcesses.create('count-job.ts', ps, workers, {
      SHOAL_ENGINE: engine,
      COUNT_PACE: `${placeOf(name)}.pace`,
      TASKS_ROOT: placeOf(name),
      COUNT_FILES: join(folder, 'records-*'),
      COUNT_RECORDS: String(RECORDS),
      COUNT_EPOCHS: String(EPOCHS),
      ...env,
    });
  }

  const expectAllOnce = (chief: TaskProcess) => {
    expect(chief.output()).toMatch(
      engine === 'direct' ? /agent at .*, direct engine/ : /agent at .*, TensorFlow at/,
    );
    expect(timesApplied(chief)).toEqual(ALL_ONCE_AN_EPOCH);
  };

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
    const killRepeatedly = async (index: number) => {
      while (!isOver) {
        const worker = tasks.start('worker', index);
        const ended = worker.exit.then(() => undefined);
        await Promise.race([
          worker.waitForOutput(/step \d+ of/, 120_000).catch(() => undefined),
          ended,
          chief.exit,
        ]);
        if (kills >= KILLS) return ended;
        await Promise.race([sleep(300 + 1200 * random()), chief.exit]);
        if (isOver) return;
        kills += 1;
        worker.child.kill('SIGKILL');
        await ended;
        if (kills >= KILLS) pace('workers', 0);
      }
    };
    await Promise.all([killRepeatedly(1), killRepeatedly(2), chief.exit]);
    expectAllOnce(chief);
    expect(kills).toBeGreaterThan(1);
  });

  test('when a ps is lost: all tasks go back to a checkpoint', { timeout: TIMEOUT }, async () => {
    pace('ps', 1000);
    await using tasks = await cluster('ps', 2, 2, { COUNT_SAVE_SECS: '1', COUNT_INFLIGHT: '2' });
    tasks.start('ps', 0);
    const lost = tasks.start('ps', 1);
    const chief = tasks.start('worker', 0);
    const worker = tasks.start('worker', 1);
    await chief.waitForOutput(/saved model.ckpt-[1-9]/, 120_000);
    lost.child.kill('SIGKILL');
    await lost.exit;
    pace('ps', 0);
    tasks.start('ps', 1);
    await chief.exit;
    expect(chief.output()).toMatch(/variables? (was|were) lost: restored model.ckpt-/);
    expectAllOnce(chief);
    // A finished worker stays for the last checkpoint: its disk has the same checkpoints as the others, no older ones.
    expect(await worker.exit).toBe(0);
    const kept = (task: string) => readdirSync(join(placeOf('ps'), task, 'blobs/count/manifests')).sort();
    expect(kept('worker-1')).toEqual(kept('worker-0'));
    expect(kept('worker-1').length).toBeLessThanOrEqual(2);
  });

  // The engine makes no difference to how files are divided.
  test.runIf(engine === DEFAULT_ENGINE)(
    'of a plain file dataset whose batch size does not divide the shards',
    {
      timeout: TIMEOUT,
    },
    async () => {
      pace('dataset', 500);
      await using tasks = await cluster('dataset', 2, 2, { COUNT_INPUT: 'dataset', COUNT_BATCH: '7' });
      tasks.start('ps', 0);
      tasks.start('ps', 1);
      const chief = tasks.start('worker', 0);
      const worker = tasks.start('worker', 1);
      await worker.waitForOutput(/step \d+ of/, 120_000);
      worker.child.kill('SIGKILL');
      await worker.exit;
      pace('dataset', 0);
      await chief.exit;
      expect(chief.output()).toMatch(
        /input: 300 records of 3 files as 9 shards, 2 times, leased by the chief; train: { input: 'whole' }/,
      );
      expectAllOnce(chief);
    },
  );

  // With `direct` a stopped ps has its part of the step already: there is no such moment.
  test.runIf(engine === 'grpc')(
    'when a worker is killed after one of two ps has applied its step',
    { timeout: TIMEOUT },
    async () => {
      // Slow at first: on a busy machine the chief alone must not reach the end before the worker has started.
      pace('part', 1000);
      await using tasks = await cluster('part', 2, 2, {
        // Rarely: a worker that is paused for a save makes no step.
        COUNT_SAVE_SECS: '5',
        COUNT_BATCH: '6',
        // A ps that is stopped for a short time must not count as lost.
        SHOAL_DEAD_AFTER_MS: '60000',
      });
      const ps = [tasks.start('ps', 0), tasks.start('ps', 1)] as const;
      const chief = tasks.start('worker', 0);
      const killDuringStep = async (): Promise<void> => {
        const worker = tasks.start('worker', 1);
        await chief.waitForOutput(/saved model.ckpt-[1-9]/, 120_000);
        await worker.waitForOutput(/step \d+ of/, 120_000);
        // A step of the worker is applied on one ps and waits for the other.
        ps[1].child.kill('SIGSTOP');
        await sleep(4000);
        worker.child.kill('SIGKILL');
        await worker.exit;
        ps[1].child.kill('SIGCONT');
      };
      const isPartial = () =>
        chief.waitForOutput(/partially applied: restoring the newest checkpoint/, 15_000).then(
          () => true,
          () => false,
        );
      await killDuringStep();
      // A worker that was paused or between two steps leaves no partial step.
      for (let more = 2; !(await isPartial()); more--) {
        expect(more).toBeGreaterThan(0);
        await killDuringStep();
      }
      pace('part', 0);
      await chief.exit;
      expectAllOnce(chief);
    },
  );

  // monitored.test.ts replaces the chief on both engines.
  test.runIf(engine === DEFAULT_ENGINE)(
    'when the chief is lost: its successor and all tasks go back to a checkpoint',
    {
      timeout: TIMEOUT,
    },
    async () => {
      pace('chief', 1000);
      await using tasks = await cluster('chief', 1, 2, { COUNT_SAVE_SECS: '1' });
      tasks.start('ps', 0);
      const first = tasks.start('worker', 0);
      tasks.start('worker', 1);
      await first.waitForOutput(/saved model.ckpt-[1-9]/, 120_000);
      first.child.kill('SIGKILL');
      await first.exit;
      pace('chief', 0);
      const successor = tasks.start('worker', 0);
      await successor.exit;
      expect(successor.output()).toMatch(/the ledger of the previous chief is lost: restoring/);
      expectAllOnce(successor);
    },
  );
});
