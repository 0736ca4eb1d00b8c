/** `shoal run` with real tasks: training to the end, status, a lost ps, interruption; no process remains. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ROOT } from '../setup/run-setup.js';
import { isAlive, type ShoalProcess, shoal, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 400_000 });

const JOB = join(ROOT, 'examples/linear-regression/job.ts');
const WAIT_MS = 180_000;

let scratch: string;
let launcher: ShoalProcess | undefined;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-cluster-'));
});

afterEach(async () => {
  launcher?.child.kill('SIGKILL');
  await launcher?.ended;
  launcher = undefined;
  rmSync(scratch, { recursive: true, force: true });
});

function start(tasks: readonly string[], steps: number): ShoalProcess {
  launcher = startShoal(['run', JOB, ...tasks, '--', '--steps', String(steps)], { cwd: scratch });
  return launcher;
}

const pidsIn = (text: string) =>
  [...text.matchAll(/^shoal +│ (\w+ \d+)(?: \(chief\))? is process (\d+)/gm)].map(([, task, pid]) => ({
    task: task!,
    pid: Number(pid),
  }));
const pidOf = (task: string, { output }: ShoalProcess) =>
  pidsIn(output.stdout).findLast((one) => one.task === task)!.pid;

async function waitUntil(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + WAIT_MS;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`timed out: ${what}:\n${launcher?.output.stdout}`);
    await new Promise((tick) => setTimeout(tick, 100));
  }
}

const trains = (run: ShoalProcess) =>
  waitUntil('it trains', () => /worker \d+ +│ step \d+ of /.test(run.output.stdout));
const allExited = (run: ShoalProcess) =>
  waitUntil('all tasks have exited', () => pidsIn(run.output.stdout).every(({ pid }) => !isAlive(pid)));

test('two ps and three workers train to the last step without errors', async () => {
  const run = start(['--ps', '2', '--workers', '3'], 1000);
  expect(await run.ended).toBe(0);
  const { stdout, stderr } = run.output;
  expect(stderr).toBe('');
  const ends = [
    ...stdout.matchAll(
      /^worker (\d) │ done at step (\d+)(?: \(last step 1000: [^)]*\))?; (\d+) steps were made here/gm,
    ),
  ];
  expect(ends.map(([, index]) => index).sort()).toEqual(['0', '1', '2']);
  // Each asynchronous worker may have a step in flight when the last step is reached.
  for (const [, , step] of ends) expect(Number(step)).toBeGreaterThanOrEqual(1000);
  const own = ends.reduce((sum, [, , , steps]) => sum + Number(steps), 0);
  expect(own).toBe(Math.max(...ends.map(([, , step]) => Number(step))));
  expect(readdirSync(join(scratch, '.shoal/linear-regression')).sort()).toEqual([
    'ps-0',
    'ps-1',
    'worker-0',
    'worker-1',
    'worker-2',
  ]);
  await allExited(run);
});

test('status lists the tasks and their steps, and prints nothing without credentials', async () => {
  const run = start(['--ps', '1', '--workers', '1'], 10_000_000);
  await trains(run);
  const { code, stdout } = await shoal(['status', '--json'], { cwd: scratch });
  expect(code).toBe(0);
  const status = JSON.parse(stdout);
  expect(status).toMatchObject({ cluster: 'linear-regression', chief: '/job:worker/task:0' });
  expect(status.members).toHaveLength(2);
  const chief = status.members.find(({ task }: { task: string }) => task === '/job:worker/task:0');
  expect(chief).toMatchObject({ status: 'alive', pid: pidOf('worker 0', run), step: expect.any(Number) });
  const elsewhere = mkdtempSync(join(tmpdir(), 'shoal-stranger-'));
  const stranger = await shoal(['status', '--agent', chief.agentAddress], { cwd: elsewhere });
  rmSync(elsewhere, { recursive: true });
  expect(stranger.code).toBe(1);
  expect(stranger.stdout).toBe('');
  run.child.kill('SIGINT');
  expect(await run.ended).toBe(130);
  expect(existsSync(join(scratch, '.shoal/linear-regression/cluster.json'))).toBe(false);
  await allExited(run);
});

test('a killed ps restarts at another port, the others keep running, training resumes', async () => {
  const run = start(['--ps', '2', '--workers', '1', '--wipe'], 10_000_000);
  await trains(run);
  const before = { ps0: pidOf('ps 0', run), ps1: pidOf('ps 1', run), worker: pidOf('worker 0', run) };
  process.kill(before.ps1, 'SIGKILL');
  await waitUntil('it trains again', () => {
    const [, after = ''] = run.output.stdout.split('ps 1 was killed by SIGKILL; restart 1 of at most 5');
    return /worker 0 +│ step \d+ of /.test(after);
  });
  expect(pidOf('ps 1', run)).not.toBe(before.ps1);
  expect([pidOf('ps 0', run), pidOf('worker 0', run)]).toEqual([before.ps0, before.worker]);
  run.child.kill('SIGTERM');
  expect(await run.ended).toBe(130);
  expect(run.output.stdout).not.toContain('did not stop within');
  await allExited(run);
});

test('the tasks of a killed launcher exit', async () => {
  const run = start(['--ps', '1', '--workers', '1'], 10_000_000);
  await trains(run);
  run.child.kill('SIGKILL');
  await run.ended;
  await allExited(run);
});
