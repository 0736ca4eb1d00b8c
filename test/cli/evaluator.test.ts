/** `shoal run` with an evaluator, and an evaluator configured by TF_CONFIG alone, as real processes. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { scalarsIn } from '../../src/training/train/testing/workspace.js';
import { ROOT } from '../setup/run-setup.js';
import { isAlive, type ShoalProcess, shoal, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 400_000 });

const JOB = join(ROOT, 'test/cluster/programs/evaluated-job.ts');
const WAIT_MS = 180_000;

let scratch: string;
let started: ShoalProcess[];

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-evaluator-'));
  started = [];
});

afterEach(async () => {
  for (const { child } of started) child.kill('SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  rmSync(scratch, { recursive: true, force: true });
});

function start(args: readonly string[], env: Readonly<Record<string, string>>): ShoalProcess {
  const run = startShoal(args, { cwd: scratch, env });
  started.push(run);
  return run;
}

async function waitUntil(what: string, run: ShoalProcess, holds: () => boolean): Promise<void> {
  const end = Date.now() + WAIT_MS;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`timed out: ${what}:\n${run.output.stdout}`);
    await new Promise((tick) => setTimeout(tick, 100));
  }
}

const savedIn = (text: string) =>
  [...text.matchAll(/saved model\.ckpt-(\d+)/g)].map(([, step]) => Number(step));

/** The evaluated steps; checks that the best one was kept. */
async function evaluatedIn(dir: string): Promise<readonly number[]> {
  const found = await scalarsIn(join(dir, 'eval'), 'error');
  const [best] = JSON.parse(readFileSync(join(dir, 'best/best.json'), 'utf8')) as [
    { value: number; path: string },
  ];
  expect(best.value).toBeCloseTo(Math.min(...found.map(([, value]) => value)), 6);
  expect(existsSync(`${best.path}.index`)).toBe(true);
  return found.map(([step]) => step);
}

test('a job with `evaluate` has an evaluator, which exits after the last checkpoint', async () => {
  const run = start(['run', JOB, '--ps', '1', '--workers', '1'], { LAST_STEP: '300' });
  const code = await run.ended;
  const { stdout } = run.output;
  expect(code, stdout + run.output.stderr).toBe(0);
  expect(stdout).toMatch(/evaluator 0 │ done: \d+ evaluations?, the last of step 300/);
  const steps = await evaluatedIn(join(scratch, '.shoal/evaluated/evaluator-0'));
  expect(steps.at(-1)).toBe(savedIn(stdout).at(-1));
});

test('an evaluator exits when it is stopped, and no process remains', async () => {
  const run = start(['run', JOB, '--ps', '1', '--workers', '1'], { LAST_STEP: '10000000' });
  await waitUntil('it evaluates', run, () => /evaluator 0 │ evaluation of /.test(run.output.stdout));
  run.child.kill('SIGINT');
  expect(await run.ended).toBe(130);
  expect(run.output.stdout).toMatch(/evaluator 0 │ stopped after \d+ evaluations?/);
  expect(run.output.stdout).not.toContain('did not stop within');
  const pids = [...run.output.stdout.matchAll(/is process (\d+)/g)].map(([, pid]) => Number(pid));
  expect(pids).toHaveLength(3);
  await waitUntil('all tasks have exited', run, () => !pids.some(isAlive));
});

test('an evaluator that is not in the cluster of the other tasks evaluates to the end', async () => {
  const [ps, worker] = (await choosePorts('127.0.0.1', 2)).map((port) => `127.0.0.1:${port}`);
  const cluster = { ps: [ps], worker: [worker] };
  const [evaluator, ...others] = ['evaluator', 'ps', 'worker'].map((type) =>
    start(['task', JOB], {
      TF_CONFIG: JSON.stringify({ cluster, task: { type, index: 0 } }),
      LAST_STEP: '300',
    }),
  );
  const all = [evaluator!, ...others];
  const codes = await Promise.all(all.map(({ ended }) => ended));
  expect(codes, all.map(({ output }) => output.stdout + output.stderr).join('\n---\n')).toEqual([0, 0, 0]);
  const steps = await evaluatedIn(join(scratch, '.shoal/evaluated/evaluator-0'));
  expect(steps.at(-1)).toBe(savedIn(others[1]!.output.stdout).at(-1));
});

test('--evaluator without --ps and --workers is rejected with a hint', async () => {
  const { code, stderr } = await shoal(['run', JOB, '--evaluator'], { cwd: scratch });
  expect(code).not.toBe(0);
  expect(stderr).toContain('pass --ps and --workers as well');
});
