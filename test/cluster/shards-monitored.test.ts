/** Leased files in monitored sessions on a real cluster: whichever task is killed, every record is applied once per epoch. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeIdRecords } from '../../src/training/input/testing/id-records.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

const FILES = 3;
const PER_FILE = 50;
const RECORDS = FILES * PER_FILE;
const EPOCHS = 2;
const PROGRAM = 'shards-monitored.ts';
/** Only detects hangs; a run takes a tenth of it on an idle machine. */
const TIMEOUT = 280_000;

let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-shards-monitored-'));
  await writeIdRecords(folder, 'records', { files: FILES, perFile: PER_FILE });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Delays every batch. */
const pace = (name: string, ms: number) => writeFileSync(join(folder, `${name}.pace`), String(1000 * ms));

const cluster = (name: string, ps: number, workers: number, env: NodeJS.ProcessEnv = {}) =>
  TaskProcesses.create(PROGRAM, ps, workers, {
    COUNT_PACE: join(folder, `${name}.pace`),
    TASKS_ROOT: join(folder, name),
    COUNT_FILES: join(folder, 'records-*'),
    COUNT_RECORDS: String(RECORDS),
    COUNT_EPOCHS: String(EPOCHS),
    ...env,
  });
const start = (tasks: TaskProcesses, job: 'ps' | 'worker', index: number) =>
  tasks.start(job, index, [], PROGRAM);

/** The final values of the tables. */
const countsOf = (chief: TaskProcess): unknown =>
  JSON.parse(/^counts (.*)$/m.exec(chief.output())?.[1] ?? 'null');

const every = Array(RECORDS).fill(EPOCHS);
const ALL_ONCE_AN_EPOCH = { a: every, b: every };

// The other tests of this file run on grpc. shards-exactly-once.test.ts kills workers on both engines.
test('engine direct: the records of a killed worker are reassigned, and the last epoch ends the loops', {
  timeout: TIMEOUT,
}, async () => {
  pace('worker', 300);
  await using tasks = await cluster('worker', 2, 3, { SHOAL_ENGINE: 'direct' });
  start(tasks, 'ps', 0);
  start(tasks, 'ps', 1);
  const [chief, killed, other] = [0, 1, 2].map((index) => start(tasks, 'worker', index)) as [
    TaskProcess,
    TaskProcess,
    TaskProcess,
  ];
  await killed.waitForOutput(/^step \d+/m, 120_000);
  killed.child.kill('SIGKILL');
  await killed.exit;
  await other.waitForOutput(/^step \d+/m, 120_000);
  pace('worker', 0);
  const codes = await Promise.all([chief.exit, other.exit]);
  expect(codes, chief.output() + other.output()).toEqual([0, 0]);
  expect(countsOf(chief)).toEqual(ALL_ONCE_AN_EPOCH);
});

test('after all tasks were killed and restarted, the ledger resumes from the checkpoint', {
  timeout: TIMEOUT,
}, async () => {
  // A repeated test must not find the checkpoints of its first attempt.
  rmSync(join(folder, 'all'), { recursive: true, force: true });
  pace('all', 500);
  {
    await using tasks = await cluster('all', 1, 2);
    start(tasks, 'ps', 0);
    const chief = start(tasks, 'worker', 0);
    start(tasks, 'worker', 1);
    await chief.waitForOutput(/^saved train_logs\/model.ckpt-[1-9]/m, 120_000);
  }
  pace('all', 0);
  await using tasks = await cluster('all', 1, 2);
  start(tasks, 'ps', 0);
  const chief = start(tasks, 'worker', 0);
  start(tasks, 'worker', 1);
  expect(await chief.exit, chief.output()).toBe(0);
  expect(chief.output()).toMatch(/restoring .*\n(?:.*\n)*input: continuing after [1-9]\d* consumed records/);
  expect(countsOf(chief)).toEqual(ALL_ONCE_AN_EPOCH);
});

test('a stale end of input from before a recovery does not end training', {
  timeout: TIMEOUT,
}, async () => {
  pace('late', 0);
  await using tasks = await cluster('late', 1, 2, { COUNT_LATE_ENDS: '3,9' });
  start(tasks, 'ps', 0);
  const [chief, worker] = [start(tasks, 'worker', 0), start(tasks, 'worker', 1)];
  expect([await chief.exit, await worker.exit], chief.output() + worker.output()).toEqual([0, 0]);
  expect(chief.output()).toMatch(/The records ended before the leases did/);
  expect(countsOf(chief)).toEqual(ALL_ONCE_AN_EPOCH);
});
