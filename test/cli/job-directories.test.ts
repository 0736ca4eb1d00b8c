/** Where jobs keep their checkpoints: in one directory per job, in one process and on a cluster alike. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { shoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 900_000, hookTimeout: 600_000 });

/** Arguments: the name, the last step, and where checkpoints are kept. */
const JOB = `
  import { defineJob, tf } from 'shoal';
  const [name, steps, store] = process.argv.slice(2);
  export default defineJob({
    name,
    model() {
      const w = tf.variable('w', { shape: [], initializer: tf.zerosInitializer() });
      return { loss: w.sub(1).square(), optimizer: tf.train.sgd(0.5), outputs: { w } };
    },
    train: { lastStep: Number(steps), checkpoint: { everySecs: 3600, store } },
  });`;

let scratch: string;

function make(): void {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-directories-'));
  writeFileSync(join(scratch, 'job.ts'), JOB);
}
const remove = () => rmSync(scratch, { recursive: true, force: true });
const runShoal = (...args: readonly string[]) => shoal(args, { cwd: scratch });
const run = (...args: readonly string[]) => runShoal('run', 'job.ts', '--', ...args);

describe('two jobs in one folder', () => {
  beforeAll(make);
  afterAll(remove);

  test('have separate checkpoints, and each resumes from its own', async () => {
    expect((await run('one', '5')).stdout).toContain('done at step 5');
    const partials = join(scratch, '.shoal/one/worker-0/blobs/.shoal-uploads');
    const left = join(partials, '00000000-0000-4000-8000-000000000000.part');
    mkdirSync(partials, { recursive: true });
    writeFileSync(left, 'half');
    const recently = Date.now() / 1000 - 60;
    utimesSync(left, recently, recently);
    const two = await run('two', '3');
    expect(two, two.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/done at step 3\b/) });
    const again = await run('one', '6');
    expect(again.stdout).toMatch(/restored model\.ckpt-5[\s\S]*done at step 6/);
    // The partial upload of an earlier process of the job was removed.
    expect(existsSync(left)).toBe(false);
    expect(existsSync(join(scratch, 'checkpoints'))).toBe(false);
    expect(readdirSync(join(scratch, '.shoal/one'))).toEqual(['worker-0']);
  });

  test('are listed together, and only a choice needs --job', async () => {
    const { code, stdout } = await runShoal('checkpoint', 'ls');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^job +name +step/);
    expect(stdout).toMatch(/^one +model\.ckpt-6 [\s\S]*^two +model\.ckpt-3 /m);
    expect(await runShoal('checkpoint', 'inspect', 'latest')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--job one or --job two'),
    });
    const two = await runShoal('checkpoint', 'inspect', 'latest', '--job', 'two', '--json');
    expect(JSON.parse(two.stdout)).toMatchObject({ name: 'model.ckpt-3' });
  });

  test('continue on a cluster where one process has stopped', async () => {
    const { code, stdout } = await runShoal('run', 'job.ts', '--ps', '1', '--workers', '1', '--', 'one', '9');
    expect(stdout).toMatch(/restored model\.ckpt-6\b/);
    expect(code).toBe(0);
  });
});

describe('a job in one process', () => {
  beforeEach(make);
  afterEach(remove);

  test('keeps its checkpoints in the store that it names, and rejects the store of another job', async () => {
    const store = `file:${join(scratch, 'shared')}`;
    expect(await run('one', '4', store)).toMatchObject({ code: 0 });
    expect(readdirSync(join(scratch, 'shared/manifests')).length).toBeGreaterThan(0);
    const two = await run('two', '4', store);
    expect(two.code).toBe(2);
    expect(two.stderr).toMatch(
      /SHOAL_CONFIG: model\.ckpt-4 in file:\S+ is a checkpoint of job one, but this is job two\n {2}hint: /,
    );
    expect((await run('one', '5', store)).stdout).toMatch(/restored model\.ckpt-4[\s\S]*done at step 5/);
  });
});

describe('a directory that cannot be used', () => {
  beforeAll(() => {
    make();
    writeFileSync(join(scratch, 'file'), '');
    mkdirSync(join(scratch, 'home'));
    writeFileSync(join(scratch, 'home/ps-0'), '');
  });
  afterAll(remove);
  const cluster = ['--ps', '1', '--workers', '1'];
  const job = ['--', 'one', '3'];
  const alone = [
    '--job_name=worker',
    '--task_index=0',
    '--ps_hosts=127.0.0.1:1',
    '--worker_hosts=127.0.0.1:2',
  ];

  test.each([
    ['run in one process, a file', ['run', 'job.ts', '--dir', 'file', ...job], 'it is a file'],
    ['run of a cluster, a file', ['run', 'job.ts', ...cluster, '--dir', 'file', ...job], 'it is a file'],
    [
      'run of a cluster, below a file',
      ['run', 'job.ts', ...cluster, '--dir', 'file/x', ...job],
      'a part of the path is a file',
    ],
    [
      'run of a cluster, the place of a task',
      ['run', 'job.ts', ...cluster, '--dir', 'home', ...job],
      'it is a file',
    ],
    ['task', ['task', 'job.ts', ...alone, '--dir', 'file', ...job], 'it is a file'],
    ['checkpoint pull', ['checkpoint', 'pull', 'latest', 'file', '--store', 'file:home'], 'it is a file'],
  ])('is rejected at once: %s', async (_, args, why) => {
    const { code, stdout, stderr } = await runShoal(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^SHOAL_CONFIG: .* cannot be used: .*\n {2}hint: /);
    expect(stderr).toContain(why);
  });
});
