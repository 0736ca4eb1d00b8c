/** Records from JavaScript on a real cluster: a lost ps or a failing source is not treated as the end of the input. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sleep } from '../../src/base/async/deadline.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

const MONITORED = 'fed-monitored.ts';
const RECORDS = 200;
/** Only detects hangs; a run takes a tenth of it on an idle machine. */
const LONG = { timeout: 600_000 };
const WAITS_FOR_RECORDS = { FED_EVERY_MS: '20', FED_CAPACITY: '8' };

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'shoal-fed-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const cluster = (env: NodeJS.ProcessEnv) =>
  TaskProcesses.create('fed-job.ts', 1, 1, { TASKS_ROOT: root, FED_RECORDS: String(RECORDS), ...env });

async function killed(ps: TaskProcess): Promise<void> {
  ps.child.kill('SIGKILL');
  await ps.exit;
}

const recordsIn = (output: string): number[] =>
  [...output.matchAll(/^record (\d+)$/gm)].map(([, id]) => Number(id));
/** The records that do not follow their predecessor. */
const gapsIn = (seen: readonly number[]) => seen.filter((id, i) => id !== (seen[i - 1] ?? -1) + 1);

describe('a monitored session', () => {
  it.each([
    ['training waits for records', WAITS_FOR_RECORDS],
    ['records wait for training', { FED_STEP_MS: '20' }],
  ])('that loses a ps while %s restarts the pass and completes it', LONG, async (_, env) => {
    await using tasks = await cluster(env);
    const ps = tasks.start('ps', 0, [], MONITORED);
    const worker = tasks.start('worker', 0, [], MONITORED);
    await worker.waitForOutput(/^record 60$/m, 120_000);
    await killed(ps);
    tasks.start('ps', 0, [], MONITORED);
    expect(await worker.exit, worker.output()).toBe(0);
    const [, after = ''] = worker.output().split('the cluster is complete again');
    expect({ gaps: gapsIn(recordsIn(after)), last: recordsIn(after).at(-1) }, after).toEqual({
      gaps: [],
      last: RECORDS - 1,
    });
  });

  // With the direct engine the queue of the records outlives a ps, and the pass continues.
  it('that loses a ps temporarily between two steps restarts the pass too', LONG, async () => {
    await using tasks = await cluster({ FED_STEP_MS: '8000', SHOAL_ENGINE: 'grpc' });
    const ps = tasks.start('ps', 0, [], MONITORED);
    const worker = tasks.start('worker', 0, [], MONITORED);
    await worker.waitForOutput(/^record 0$/m, 120_000);
    ps.child.kill('SIGSTOP');
    await sleep(6000);
    ps.child.kill('SIGCONT');
    await worker.waitForOutput(/^record 0$[\s\S]*a step failed[\s\S]*^record 0$/m, 60_000);
  });

  it('whose source fails ends with its error', LONG, async () => {
    await using tasks = await cluster({ FED_FAILS_AT: '50' });
    tasks.start('ps', 0, [], MONITORED);
    const worker = tasks.start('worker', 0, [], MONITORED);
    expect(await worker.exit, worker.output()).toBe(1);
    expect(worker.output()).toMatch(/^failed: no record 50$/m);
  });
});

describe('a job', () => {
  it.each([
    ['training waits for records', WAITS_FOR_RECORDS, /step [5-9]\d of/],
    ['records wait for training', { FED_RECORDS: '5000' }, /step \d{3,4} of/],
  ])('that loses a ps while %s restarts the pass and completes it', LONG, async (_, env, when) => {
    await using tasks = await cluster(env);
    const ps = tasks.start('ps', 0);
    const worker = tasks.start('worker', 0);
    await worker.waitForOutput(when, 120_000);
    await killed(ps);
    tasks.start('ps', 0);
    expect(await worker.exit, worker.output()).toBe(0);
    expect(worker.output()).toMatch(/the cluster is complete again/);
    const records = Number({ FED_RECORDS: RECORDS, ...env }.FED_RECORDS);
    expect(worker.output()).toContain(`counts = [0,${records},0,0,0]`);
  });

  it('whose source fails ends with its error', LONG, async () => {
    await using tasks = await cluster({ FED_FAILS_AT: '50' });
    tasks.start('ps', 0);
    const worker = tasks.start('worker', 0);
    expect(await worker.exit, worker.output()).toBe(1);
    expect(worker.output()).toMatch(/^failed: no record 50$/m);
  });
});
