/** The exports of a job on a cluster, by its chief, by its evaluator and by `shoal export`, as real processes. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { describeFinished } from '../../src/app/cli/job/finished.js';
import { defineJob } from '../../src/app/job/definition/define-job.js';
import { versionsOf } from '../../src/training/saved-model/writing/versions.js';
import { askPython } from '../python.js';
import { ROOT } from '../setup/run-setup.js';
import { shoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 400_000, hookTimeout: 400_000 });

const JOB = join(ROOT, 'test/cluster/programs/evaluated-job.ts');
const ORACLE = new URL('../../src/training/saved-model/testing/oracle.py', import.meta.url);
const X = [0, 0.5, 1];

let scratch: string;
let home: string;
let output: string;
const run = (...args: string[]) => shoal(args, { cwd: scratch, env: { EXPORT: '1', LAST_STEP: '500' } });

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-export-cli-'));
  home = join(scratch, '.shoal/evaluated');
  const { code, stdout, stderr } = await run('run', JOB, '--ps', '2', '--workers', '2');
  output = stdout;
  expect(code, stdout + stderr).toBe(0);
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const predictedBy = async (...dirs: string[]): Promise<readonly number[][]> => {
  const cases = dirs.map((dir) => ({ how: 'v2', dir, signature: 'serving_default', inputs: { x: X } }));
  return (await askPython<{ predicted: number[] }[]>(ORACLE, cases)).map(({ predicted }) => predicted);
};

test('Python loads the exports of chief, evaluator and command; no other files remain', async () => {
  const latest = await versionsOf('evaluated', join(home, 'worker-0/export'));
  expect(output.match(/worker 0 +│ exported step/g)?.length).toBeGreaterThan(2);
  expect(latest).toHaveLength(2);
  expect(latest[0]?.origin.step).toBeGreaterThanOrEqual(500);
  const best = await versionsOf('evaluated', join(home, 'evaluator-0/export/best'));
  expect(best).toHaveLength(1);
  expect(best[0]?.origin.metric?.name).toBe('error');
  for (const [task, folder] of [
    ['worker-0', 'export'],
    ['evaluator-0', 'export/best'],
  ] as const) {
    const names = readdirSync(join(home, task, folder));
    expect(names.filter((name) => !/^\d+$/.test(name))).toEqual([]);
  }
  for (const task of ['ps-0', 'ps-1', 'worker-0', 'worker-1'])
    expect(
      existsSync(join(home, task, 'blobs/+exports')) && readdirSync(join(home, task, 'blobs/+exports')),
    ).toBeFalsy();

  const { code, stdout, stderr } = await run('export', JOB, '--out', 'out/1', '--json');
  expect(code, stderr).toBe(0);
  const printed = JSON.parse(stdout);
  expect(printed).toMatchObject({
    job: 'evaluated',
    step: latest[0]?.origin.step,
    path: join(scratch, 'out/1'),
  });

  const [fromChief, fromCommand, fromBest] = await predictedBy(latest[0]!.path, printed.path, best[0]!.path);
  expect(fromCommand).toEqual(fromChief);
  for (const [i, x] of X.entries()) expect(fromChief?.[i]).toBeCloseTo(0.1 * x + 0.3, 1);
  expect(fromBest).toHaveLength(X.length);
});

test('a job that trains synchronously without checkpoints is exported', async () => {
  const job = join(ROOT, 'test/cluster/programs/sync-export-job.ts');
  const { code, stdout, stderr } = await run('run', job, '--ps', '1', '--workers', '2', '--no-restart');
  expect(code, stdout + stderr).toBe(0);
  const [newest] = await versionsOf('sync-export', join(scratch, '.shoal/sync-export/worker-0/export'));
  expect(newest?.origin.step).toBeGreaterThanOrEqual(100);
  const { stdout: prediction } = await run('predict', newest!.path, '--input', '{"x": [1]}', '--json');
  // Each step adds the mean of the workers' gradients, which is 1.
  expect(JSON.parse(prediction).outputs.y).toEqual([newest?.origin.step]);
});

describe('shoal export rejects', () => {
  test.each([
    ['a directory that is not empty', ['--out', '.'], 1, /SHOAL_ALREADY_EXISTS: .* is not empty/],
    ['a step that was not saved', ['--out', 'o', '--checkpoint', '3'], 1, /has no checkpoint 3\b/],
    ['files that do not exist', ['--out', 'o', '--checkpoint', './no/model'], 1, /There is no checkpoint at/],
  ])('%s', async (_, flags, expected, message) => {
    const { code, stderr } = await run('export', JOB, ...flags);
    expect(code, stderr).toBe(expected);
    expect(stderr).toMatch(message);
    expect(readdirSync(scratch)).not.toContain('o');
  });
});

test('a job that is trained, exported and evaluated is not started again; otherwise it says why', async () => {
  const again = await run('run', JOB, '--ps', '2', '--workers', '2');
  expect(again, again.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^job evaluated is finished: .*\nto train further: .*\n$/),
  });
  const job = defineJob({
    name: 'evaluated',
    model: () => expect.unreachable(),
    train: { lastStep: 500, checkpoint: {} },
    export: {},
  });
  rmSync(join(home, 'evaluator-0/eval'), { recursive: true });
  const remaining = async (evaluates: boolean) =>
    await describeFinished(job, { home, evaluator: evaluates ? join(home, 'evaluator-0') : undefined });
  expect(await remaining(false)).toMatchObject({ isComplete: true });
  expect(await remaining(true)).toMatchObject({
    isComplete: false,
    lines: [expect.stringMatching(/^job evaluated is trained: .*; its tasks start to evaluate it$/)],
  });
  rmSync(join(home, 'worker-0/export'), { recursive: true });
  expect((await remaining(true))?.lines[0]).toMatch(/start to export the model and to evaluate it$/);
});
