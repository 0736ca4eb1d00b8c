/** Workers that the cluster does not list join and leave during training; every record is applied once per epoch. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sleep } from '../../src/base/async/deadline.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { askStatus } from '../../src/distributed/cluster/agent/status.js';
import { writeIdRecords } from '../../src/training/input/testing/id-records.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

const TIMEOUT_MS = 280_000;
const [FILES, PER_FILE, EPOCHS] = [3, 100, 2];
const RECORDS = FILES * PER_FILE;
const ONCE = `[${[0, 1, 2, 3, 4].map((times) => (times === EPOCHS ? RECORDS : 0))}]`;

let home: string;
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'shoal-elastic-'));
  await writeIdRecords(home, 'records', { files: FILES, perFile: PER_FILE });
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const pace = (ms: number) => writeFileSync(join(home, 'pace'), String(1000 * ms));

/** Two ps and a chief. */
const cluster = () =>
  TaskProcesses.create('count-job.ts', 2, 1, {
    COUNT_PACE: join(home, 'pace'),
    TASKS_ROOT: home,
    COUNT_FILES: join(home, 'records-*'),
    COUNT_RECORDS: String(RECORDS),
    COUNT_EPOCHS: String(EPOCHS),
    COUNT_SAVE_SECS: '1',
    COUNT_ELASTIC: '1',
  });

/** Starts an elastic worker and waits until it trains. */
async function joined(tasks: TaskProcesses, index: number): Promise<TaskProcess> {
  const worker = tasks.start('worker', index, ['--elastic']);
  await worker.waitForOutput(/step \d+ of/, TIMEOUT_MS);
  return worker;
}

function expectAllOnce(chief: TaskProcess): void {
  const done = (/done at step.*$/m.exec(chief.output())?.[0] ?? '').replaceAll(', ', ',');
  expect(done, chief.output()).toContain(`a = ${ONCE}`);
  expect(done).toContain(`b = ${ONCE}`);
}

test('elastic workers train, appear in the status, and nobody waits for those that left', {
  timeout: TIMEOUT_MS,
}, async () => {
  pace(500);
  await using tasks = await cluster();
  const ps = [tasks.start('ps', 0), tasks.start('ps', 1)];
  const chief = tasks.start('worker', 0);
  const [killed, stopped] = await Promise.all([joined(tasks, 7), joined(tasks, 8)]);
  const [, agent] = /agent at ([\d.:]+)/.exec(chief.output()) ?? [];
  const { members } = await askStatus({ addresses: [agent!], security: { kind: 'none' } });
  const alive = members.filter(({ status }) => status === 'alive').map(({ task }) => String(task));
  expect(alive).toEqual(expect.arrayContaining(['/job:worker/task:7', '/job:worker/task:8']));
  killed.child.kill('SIGKILL');
  stopped.child.kill('SIGTERM');
  expect(await stopped.exit, stopped.output()).toBe(EXIT.retry);
  await killed.exit;
  const late = await joined(tasks, 9);
  pace(0);
  expect(await chief.exit, chief.output()).toBe(0);
  expect(await late.exit, late.output()).toBe(0);
  expectAllOnce(chief);
  const ended = Promise.all(ps.map(({ exit }) => exit));
  expect(await Promise.race([ended, sleep(60_000).then(() => 'late')])).toEqual([0, 0]);
});

test('a chief that is replaced continues with the elastic workers', { timeout: TIMEOUT_MS }, async () => {
  pace(500);
  await using tasks = await cluster();
  tasks.start('ps', 0);
  tasks.start('ps', 1);
  const first = tasks.start('worker', 0);
  const worker = await joined(tasks, 7);
  const left = await joined(tasks, 8);
  left.child.kill('SIGTERM');
  expect(await left.exit, left.output()).toBe(EXIT.retry);
  await first.waitForOutput(/saved model\.ckpt-[1-9]/, TIMEOUT_MS);
  first.child.kill('SIGKILL');
  await first.exit;
  const chief = tasks.start('worker', 0);
  await chief.waitForOutput(/the ledger of the previous chief is lost: restoring/, TIMEOUT_MS);
  pace(0);
  expect(await chief.exit, chief.output()).toBe(0);
  expect(await worker.exit, worker.output()).toBe(0);
  expectAllOnce(chief);
});

test('a worker that is not listed joins only a job that allows it', { timeout: TIMEOUT_MS }, async () => {
  await using tasks = await TaskProcesses.create('counting-job.ts', 1, 1, { TASKS_ROOT: home });
  const worker = tasks.start('worker', 3, ['--elastic']);
  expect(await worker.exit).toBe(1);
  expect(worker.output()).toMatch(/worker\/task:3 is elastic, but job 'counting' is not/);
});
