/** Valid and invalid job files, loaded by real processes; and what help must not load. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { shoal, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 180_000 });

let scratch: string;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-jobs-'));
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

function load(text: string, ...args: readonly string[]) {
  writeFileSync(join(scratch, 'job.ts'), text);
  return shoal(['task', 'job.ts', ...args], { cwd: scratch });
}

const JOB = `
  import { defineJob, tf } from 'shoal';
  const [steps]: string[] = process.argv.slice(2);
  export default defineJob({
    name: 'small',
    model() {
      const w = tf.variable('w', { shape: [], initializer: tf.zerosInitializer() });
      return { loss: w.sub(1).square(), optimizer: tf.train.sgd(0.5), outputs: { w } };
    },
    train: { lastStep: Number(steps) },
  });`;

test('a job outside of any package trains in one process and gets its arguments', async () => {
  const { code, stdout, stderr } = await load(JOB, '--', '3');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain('done at step 3 · loss 0.000 · w = 1');
});

test('run without --ps and --workers trains in this process', async () => {
  writeFileSync(join(scratch, 'job.ts'), JOB);
  const { code, stdout } = await shoal(['run', 'job.ts', '--', '2'], { cwd: scratch });
  expect(code).toBe(0);
  expect(stdout).toBe('done at step 2 · loss 0.000 · w = 1\n');
});

test('status shows the step of a run in one process, which keeps nothing', async () => {
  writeFileSync(join(scratch, 'job.ts'), JOB);
  const status = (...flags: readonly string[]) => shoal(['status', ...flags], { cwd: scratch });
  expect((await status()).stderr).toContain('no cluster runs');
  const run = startShoal(['run', 'job.ts', '--', '1000000000'], { cwd: scratch });
  try {
    const line = `^job small runs in one process · step \\d+ of 1000000000 · pid ${run.pid} · since `;
    await expect.poll(async () => (await status()).stdout, { timeout: 120_000 }).toMatch(new RegExp(line));
    const { stdout } = await status('--json');
    expect(JSON.parse(stdout)).toMatchObject({ job: 'small', pid: run.pid, lastStep: 1_000_000_000 });
  } finally {
    run.child.kill('SIGTERM');
    // The help of `run`: all its signals are interrupts.
    expect(await run.ended).toBe(EXIT.interrupted);
  }
  expect(existsSync(join(scratch, '.shoal'))).toBe(false);
});

const SAVED_JOB = `
  import { defineJob, tf } from 'shoal';
  export default defineJob({
    name: 'saved',
    params: { goal: 1 },
    input: ({ params }) => ({ goal: tf.constant(params.goal) }),
    model({ input }) {
      const w = tf.variable('w', { shape: [], initializer: tf.zerosInitializer() });
      return { loss: w.sub(input.goal).square(), optimizer: tf.train.sgd(0.5), outputs: { w } };
    },
    train: { lastStep: 3, checkpoint: { everySecs: 3600 } },
  });`;

test('--set, --last-step and --fresh change one run; a finished job is not started', async () => {
  writeFileSync(join(scratch, 'job.ts'), SAVED_JOB);
  const run = (...flags: readonly string[]) => shoal(['run', 'job.ts', ...flags], { cwd: scratch });
  const first = await run('--set', 'goal=2');
  expect(first, first.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('done at step 3 · loss 0.000 · w = 2'),
  });
  const again = await run('--ps', '1', '--workers', '1');
  expect(again).toMatchObject({
    code: 0,
    stdout:
      'job saved is finished: its newest checkpoint, model.ckpt-3, has reached its last step (3)\n' +
      'to train further: --last-step 6; to start over: --fresh\n',
  });
  const further = await run('--last_step', '6', '--set=goal=5', '--ps', '1', '--workers', '1');
  expect(further.stdout).toMatch(/restored model\.ckpt-3[\s\S]*done at step 6.* w = 5/);
  const fresh = await run('--fresh');
  expect(fresh.stdout).toMatch(/^starting over; the former run is kept in \S+\/previous-\S+\n/);
  expect(fresh.stdout).not.toContain('restored');
  expect(fresh.stdout).toContain('done at step 3 · loss 0.000 · w = 1');
  const wrong = await run('--set', 'gaol=5');
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('its parameters are goal') });
});

test('an error in the job is shown with the lines of the job file', async () => {
  const { code, stderr } = await load(
    'const a: number = 1;\nfunction f() { throw new TypeError("mine"); }\nf();\n',
  );
  expect(code).toBe(1);
  expect(stderr).toMatch(/^TypeError: mine\n {4}at f \(\S+job\.ts:2:\d+\)\n {4}at \S+ \(\S+job\.ts:3:1\)\n$/);
});

test('a syntax error is shown with line and column', async () => {
  const { code, stderr } = await load('const a = ;\n');
  expect(code).toBe(2);
  expect(stderr).toMatch(/job\.ts cannot be compiled:\n\S*job\.ts:1:10: /);
});

test.each([
  ['no default export', 'export const model = 1;', 'has no default export (it exports model)'],
  ['an object that is not a job', 'export default { name: "x" };', 'is not a job: it is a plain object'],
])('a file with %s is rejected with an example', async (_, text, reason) => {
  const { code, stderr } = await load(text);
  expect(code).toBe(2);
  expect(stderr).toContain(reason);
  expect(stderr).toContain('hint: write: export default defineJob(');
});

test('the error for a missing file names it', async () => {
  const { code, stderr } = await shoal(['run', 'absent.ts', '--ps', '1'], { cwd: scratch });
  expect(code).toBe(2);
  expect(stderr).toContain(`there is no job file ${join(scratch, 'absent.ts')}`);
});

test('an error in a job is shown once, not by every task', async () => {
  writeFileSync(join(scratch, 'job.ts'), 'throw new Error("mine");');
  const { code, stdout, stderr } = await shoal(['run', 'job.ts', '--ps', '2', '--workers', '3'], {
    cwd: scratch,
  });
  expect(code).toBe(1);
  expect(stdout).toBe('');
  expect(stderr.split('Error: mine')).toHaveLength(2);
});

test('help loads no native library', async () => {
  const spy = join(scratch, 'spy.cjs');
  writeFileSync(
    spy,
    `process.on('exit', () => {
       const objects = process.report.getReport().sharedObjects.join('\\n');
       process.stderr.write(/koffi|tensorflow/.test(objects) ? 'loaded' : 'not loaded');
     });`,
  );
  const { code, stderr } = await shoal(['--help'], {
    cwd: scratch,
    env: { NODE_OPTIONS: `--require ${spy}` },
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'not loaded' });
});

/** Stops by itself, with a hook that requests it after the given number of steps. */
const STOPPING_JOB = `
  import { defineJob, tf } from 'shoal';
  let made = 0;
  export default defineJob({
    name: 'stopping',
    model() {
      const w = tf.variable('w', { shape: [] });
      return { loss: w.square(), optimizer: tf.train.sgd(0.1), outputs: { w } };
    },
    train: { lastStep: 1000, checkpoint: { everySecs: 3600 } },
    hooks: () => [{ afterRun: (context) => void (++made === 5 && context.requestStop()) }],
  });`;

test('a job that has stopped early is finished: run says so, task makes no step, another last step trains', async () => {
  writeFileSync(join(scratch, 'job.ts'), STOPPING_JOB);
  const run = (command: string, ...flags: readonly string[]) =>
    shoal([command, 'job.ts', ...flags], { cwd: scratch });
  const first = await run('run');
  expect(first, first.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('done at step 5') });
  expect(await run('run', '--ps', '1', '--workers', '2')).toMatchObject({
    code: 0,
    stdout:
      'job stopping is finished: it ended at step 5, before its last step (1000), with the checkpoint model.ckpt-5\n' +
      'to train further: --last-step 2000; to start over: --fresh\n',
  });
  const task = await run('task', '--dir', '.shoal/stopping/worker-0');
  expect(task.stdout).toMatch(
    /training has ended at step 5, before the last step \(1000\)[\s\S]*done at step 5/,
  );
  expect((await run('run', '--last-step', '2000')).stdout).toMatch(
    /restored model\.ckpt-5[\s\S]*done at step 10/,
  );
  // The end at another last step does not count any more.
  expect((await run('run')).stdout).toMatch(/restored model\.ckpt-10[\s\S]*done at step 15/);
  expect((await run('run', '--fresh')).stdout).toMatch(/starting over[\s\S]*done at step 5/);
});
