/** `shoal sweep`, with real trials. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { waitUntil } from '../setup/run-setup.js';
import { eventsIn, only } from './event-schema.js';
import { isAlive, type ShoalProcess, shoal, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 300_000 });

let scratch: string;
let run: ShoalProcess | undefined;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-sweep-'));
  writeFileSync(join(scratch, 'job.ts'), JOB);
});
afterEach(async () => {
  run?.child.kill('SIGKILL');
  await run?.ended;
  run = undefined;
  rmSync(scratch, { recursive: true, force: true });
});

const JOB = `
  import { defineJob, tf } from 'shoal';
  export default defineJob({
    name: 'line',
    params: { rate: 0.01, dim: 4 },
    model({ params }) {
      const w = tf.variable('w', { shape: [params.dim], initializer: 1 });
      return { loss: w.square().sum(), outputs: { total: w.sum() }, optimizer: tf.train.sgd(params.rate) };
    },
    train: { lastStep: 20, logEverySecs: 0.1, checkpoint: { everySecs: 0.5 } },
    evaluate: { metrics: ({ outputs }) => ({ total: tf.metrics.mean(outputs.total) }) },
  });`;

const trialFile = (name: string) =>
  JSON.parse(readFileSync(join(scratch, '.shoal/line-sweep', name, 'trial.json'), 'utf8'));
const sweep = (...args: readonly string[]) => shoal(['sweep', 'job.ts', ...args], { cwd: scratch });

test('a failed trial does not stop the others, and only it runs again', async () => {
  const args = ['--set', 'rate=0.01,1e38', '--set', 'dim=2,4', '--parallel', '2'];
  const { code, stdout } = await sweep(...args, '--metric', 'eval/total', '--mode', 'max');
  expect(code, stdout).toBe(1);
  const rows = stdout.split('\n').map((line) => line.split(/ {2,}/).map((cell) => cell.trim()));
  expect(rows).toContainEqual(['rate', 'dim', 'state', 'step', 'loss', 'eval/total', 'seconds']);
  const done = rows.filter((row) => row[2] === 'done');
  expect(done.map(([, dim]) => dim)).toEqual(['4', '2']);
  expect(rows.filter((row) => row[2] === 'failed SHOAL_NAN')).toHaveLength(2);
  expect(stdout).toMatch(/2 of 4 trials done; 2 failed; best eval\/total: [\d.]+, rate=0\.01\+dim=4;/);
  const again = await sweep(...args, '--json');
  expect(again.code).toBe(1);
  const events = eventsIn(again.stdout);
  expect(new Set(only(events, 'trial').map(({ trial }) => trial))).toEqual(
    new Set(['rate=1e+38+dim=2', 'rate=1e+38+dim=4']),
  );
  const [end] = only(events, 'sweep');
  expect(end).toMatchObject({ metric: 'loss', mode: 'min', best: 'rate=0.01+dim=2' });
  expect(end?.trials.map(({ state, starts }) => [state, starts])).toEqual([
    ['done', 1],
    ['done', 1],
    ['failed', 2],
    ['failed', 2],
  ]);
  expect(only(events, 'error').map(({ code, trial }) => [code, trial])).toContainEqual([
    'SHOAL_NAN',
    'rate=1e+38+dim=2',
  ]);
});

test('Ctrl-C saves and stops the trials, and the same sweep resumes them', async () => {
  const args = ['--set', 'rate=1e-6,1e-7', '--parallel', '2'];
  const started = startShoal(['sweep', 'job.ts', ...args, '--last-step', '100000000'], { cwd: scratch });
  run = started;
  const names = ['rate=0.000001', 'rate=1e-7'];
  const isTraining = (name: string) => {
    try {
      return trialFile(name).step > 0;
    } catch {
      return false;
    }
  };
  await waitUntil('both trials train', () => names.every(isTraining));
  const other = await sweep(...args);
  expect(other.code).toBe(2);
  expect(other.stderr).toMatch(/SHOAL_CONFIG: job line \(sweep\) already runs/);
  started.child.kill('SIGINT');
  expect(await started.ended).toBe(130);
  expect(started.output.stdout).toMatch(/0 of 2 trials done; the same command resumes/);
  const steps = names.map((name) => {
    const { state, step } = trialFile(name);
    expect(state).toBe('stopped');
    return step as number;
  });
  const last = Math.max(...steps) + 20;
  const resumed = await sweep(...args, '--last-step', String(last), '--json');
  expect(resumed.code, resumed.stderr).toBe(0);
  const events = eventsIn(resumed.stdout);
  const restored = only(events, 'restore').map(({ trial, step }) => [trial, step]);
  expect(restored.sort()).toEqual(names.map((name, i) => [name, steps[i]]).sort());
  const third = await sweep(...args, '--last-step', String(last), '--json');
  expect(third.code).toBe(0);
  expect(only(eventsIn(third.stdout), 'trial')).toEqual([]);
});

test('trials end with a sweep that is killed', async () => {
  const args = ['sweep', 'job.ts', '--set', 'rate=1e-6,1e-7', '--last-step', '100000000', '--json'];
  const started = startShoal([...args, '--ps', '1', '--workers', '1'], { cwd: scratch });
  run = started;
  const events = () => eventsIn(started.output.stdout.slice(0, started.output.stdout.lastIndexOf('\n') + 1));
  await waitUntil('a step', () => only(events(), 'step').length > 0);
  const pids = only(events(), 'taskStarted').map(({ pid }) => pid);
  expect(pids.length).toBeGreaterThan(1);
  started.child.kill('SIGKILL');
  await waitUntil('the end of all tasks', () => !pids.some(isAlive), 30_000);
});

test.each([
  [['--set', 'speed=1,2'], /SHOAL_CONFIG: --set speed=1: job line has no parameter speed\n.*rate, dim/],
  [['--set', 'rate='], /SHOAL_CONFIG: --set rate= has no values/],
  [[], /SHOAL_CONFIG: a sweep needs values to try/],
  [['--set', 'rate=1,2', '--parallel', '0'], /parallel.*expected an integer from 1/],
])('%j is refused before anything runs', async (args, reason) => {
  const { code, stderr } = await sweep(...args);
  expect(code).toBe(2);
  expect(stderr).toMatch(reason);
});

test('the parameters of a finished trial cannot change unnoticed', async () => {
  expect((await sweep('--set', 'rate=0.01')).code).toBe(0);
  writeFileSync(join(scratch, 'job.ts'), JOB.replace('dim: 4', 'dim: 5'));
  const { code, stderr } = await sweep('--set', 'rate=0.01');
  expect(code).toBe(2);
  expect(stderr).toMatch(/SHOAL_CONFIG: the trial rate=0\.01 .* with other parameters: .*"dim":4.*"dim":5/);
});
