/** Leased files in monitored sessions on a real cluster: whoever is killed, every record is in the model once for each epoch. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeIdRecords } from '../../src/input/testing/id-records.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

const FILES = 3;
const PER_FILE = 50;
const RECORDS = FILES * PER_FILE;
const EPOCHS = 2;
const PROGRAM = 'shards-monitored.ts';
/** A bound against hanging; a run takes a tenth of it on an idle machine. */
const TIMEOUT = 280_000;

let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-shards-monitored-'));
  await writeIdRecords(folder, 'records', { files: FILES, perFile: PER_FILE });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Holds every batch back for so long. */
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

/** What the tables held in the end. */
const countsOf = (chief: TaskProcess): unknown =>
  JSON.parse(/^counts (.*)$/m.exec(chief.output())?.[1] ?? 'null');

const every = Array(RECORDS).fill(EPOCHS);
const ALL_ONCE_AN_EPOCH = { a: every, b: every };

test('a worker killed in the middle: its records go to the others, and the last epoch ends the loops', {
  timeout: TIMEOUT,
}, async () => {
  pace('worker', 300);
  await using tasks = await cluster('worker', 2, 3);
  start(tasks, 'ps', 0);
  start(tasks, 'ps', 1);
  const [chief, killed, other] = [0, 1, 2].map((index) => start(tasks, 'worker', index)) as [
    TaskProcess,
    TaskProcess,
    TaskProcess,
  ];
  await killed.said(/^step \d+/m, 120_000);
  killed.child.kill('SIGKILL');
  await killed.exit;
  await other.said(/^step \d+/m, 120_000);
  pace('worker', 0);
  const codes = await Promise.all([chief.exit, other.exit]);
  expect(codes, chief.output() + other.output()).toEqual([0, 0]);
  expect(countsOf(chief)).toEqual(ALL_ONCE_AN_EPOCH);
});

test('all killed in the middle: started again, the ledger goes on where the checkpoint is', {
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
    await chief.said(/^saved train_logs\/model.ckpt-[1-9]/m, 120_000);
  }
  pace('all', 0);
  await using tasks = await cluster('all', 1, 2);
  start(tasks, 'ps', 0);
  const chief = start(tasks, 'worker', 0);
  start(tasks, 'worker', 1);
  expect(await chief.exit, chief.output()).toBe(0);
  expect(chief.output()).toMatch(
    /restoring .*\n(?:.*\n)*input: [1-9]\d* records are consumed, the rest follows/,
  );
  expect(countsOf(chief)).toEqual(ALL_ONCE_AN_EPOCH);
});

test('an end of the input that comes in late, from before a recovery: nobody takes it for the end of training', {
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
