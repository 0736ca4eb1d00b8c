/** The checkpoints in the chief's directory after training on a cluster, as Python's TensorFlow reads them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { CheckpointSummary } from '../../src/app/cli/checkpoint/health.js';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { askPython } from '../python.js';
import { runCommand } from './run-command.js';
import { shoal, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 600_000 });

const PYTHON = new URL('../../src/training/train/testing/saver.py', import.meta.url);
/** Arguments: the last step, steps between checkpoints, what is gathered, and the copies on other tasks. */
const JOB = `
  import { defineJob, tf } from 'shoal';
  const [lastStep, everySteps, gather, replicas = 1] = process.argv.slice(2);
  export default defineJob({
    name: 'tables',
    model() {
      const table = tf.partitionedVariable('table', {
        shape: [500, 20],
        initializer: tf.randomUniformInitializer(-1, 1),
        partitioner: tf.fixedSizePartitioner(2),
      });
      tf.newVariable(tf.constant(['one', '', 'drei']), { name: 'words', trainable: false });
      return { loss: tf.sum(tf.square(table.toOutput())), optimizer: tf.train.adagrad(0.01) };
    },
    train: {
      lastStep: Number(lastStep),
      checkpoint: { everySteps: Number(everySteps), keep: 3, gather, replicas: Number(replicas) },
    },
  });`;
/** Longer than a task of an ended job waits for others before it ends. */
const IDLE_MS = 31_000;
const COMPLETE = /model\.ckpt-\d+ is complete in \S+checkpoints \(2 files, .* copied\)/;

let scratch: string;
let home: string;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-gathered-'));
  home = join(scratch, '.shoal/tables');
  writeFileSync(join(scratch, 'job.ts'), JOB);
});
afterEach(() => rmSync(scratch, { recursive: true, force: true }));

async function run(...args: readonly (string | number)[]): Promise<string> {
  const words = ['run', 'job.ts', '--ps', '2', '--workers', '2', '--', ...args.map(String)];
  const { code, stdout, stderr } = await shoal(words, { cwd: scratch });
  expect(code, stdout + stderr).toBe(0);
  return stdout;
}
const checkpoint = (...args: readonly string[]) => runCommand('checkpoint', ...args, '--dir', home);
const list = async () => JSON.parse((await checkpoint('ls', '--json')).stdout) as CheckpointSummary[];
const shown = () =>
  readdirSync(join(home, 'worker-0/checkpoints')).filter((file) => file.startsWith('model'));
const pathOf = (file: string) => join(home, 'worker-0/checkpoints', file);
const isData = (file: string) => file.includes('.data-');
/** The other tasks, which are on other machines as far as Python is concerned. */
const removeOthers = () => {
  for (const task of ['ps-0', 'ps-1', 'worker-1']) rmSync(join(home, task), { recursive: true });
};

test('the last one is complete, also for Python, and remains usable when the other tasks are gone', async () => {
  expect(await run(30, 1000)).toMatch(COMPLETE);
  const [newest] = await list();
  const data = shown().filter((file) => isData(file) && file.startsWith(`${newest!.name}.`));
  expect(data).toHaveLength(2);
  const mode = 0o666 & ~process.umask();
  for (const file of shown()) expect(statSync(pathOf(file)).mode & 0o777, file).toBe(mode);
  const out = join(scratch, 'out');
  expect((await checkpoint('pull', 'latest', out)).code).not.toBe(1);
  for (const file of readdirSync(out)) expect(statSync(join(out, file)).mode & 0o777, file).toBe(mode);
  for (const file of data)
    expect(readFileSync(pathOf(file)).equals(readFileSync(join(out, file)))).toBe(true);
  const read = (path: string) => askPython<Record<string, unknown>>(PYTHON, { read: path });
  const values = await read(pathOf(newest!.name));
  expect(Object.keys(values).sort()).toEqual(['global_step', 'table', 'table/Adagrad', 'words']);
  expect(await read(join(out, newest!.name))).toEqual(values);

  // Nothing is copied again, and the job on that directory has nothing left to do.
  expect(await run(30, 1000)).not.toMatch(/is complete in/);
  removeOthers();
  expect(await list()).toMatchObject([{ name: newest!.name, health: 'degraded', copies: 1 }, {}]);
  expect((await checkpoint('verify')).stdout).toMatch(/no damage found/);
  expect((await checkpoint('repair', '--dry-run')).stdout).toMatch(/nothing to repair/);
  const again = await run(60, 1000);
  expect(again).toContain(`restored ${newest!.name} `);
  expect(again).toMatch(COMPLETE);
});

test('all of them are, if the job says so, and retention removes what was copied', async () => {
  await run(400, 40, 'all');
  const kept = (await list()).map(({ name }) => name);
  expect(kept).toHaveLength(3);
  const expected = kept.flatMap((name) => [0, 1].map((i) => `${name}.data-0000${i}-of-00002`));
  expect(shown().filter(isData).sort()).toEqual(expected.sort());
  expect(await askPython(PYTHON, { read: pathOf(kept[2]!) })).toHaveProperty('words', ['one', '', 'drei']);
  const blobs = readdirSync(join(home, 'worker-0/blobs'), { recursive: true, encoding: 'utf8' });
  expect(blobs.filter((file) => isData(file))).toHaveLength(expected.length);
});

test('none is, if the job says so: ls names the holders, and ps that are started again serve it', async () => {
  expect(await run(30, 1000, 'none')).not.toMatch(/is complete in/);
  expect(shown().filter(isData)).toEqual([]);
  expect(readFileSync(pathOf('SHOAL-README.txt'), 'utf8')).toMatch(/--dirs/);
  const ports = await choosePorts('127.0.0.1', 4);
  const hosts = ports.map((port) => `127.0.0.1:${port}`);
  const cluster = [`--ps_hosts=${hosts.slice(0, 2)}`, `--worker_hosts=${hosts.slice(2)}`];
  const ps = [0, 1].map((i) => {
    const self = ['--job_name=ps', `--task_index=${i}`, '--dir', join(home, `ps-${i}`)];
    return startShoal(['task', 'job.ts', ...cluster, ...self, '--', '30', '1000'], { cwd: scratch });
  });
  try {
    const out = join(scratch, 'out');
    // A user may need a while to start the pull, or the next ps.
    for (const { output } of ps)
      await vi.waitFor(() => expect(output.stdout).toContain('this ps serves its checkpoints'), {
        timeout: 120_000,
      });
    await sleep(IDLE_MS);
    await vi.waitFor(
      async () => {
        const pulled = await runCommand('checkpoint', 'pull', 'latest', out, '--agent', hosts[0]!);
        expect(pulled.stdout, ps[0]!.output.stdout + pulled.stderr).toContain('verified');
      },
      { timeout: 120_000, interval: 1000 },
    );
    expect(readdirSync(out).filter(isData)).toHaveLength(2);
  } finally {
    for (const { child, ended } of ps) {
      child.kill('SIGINT');
      await ended;
    }
  }
  removeOthers();
  expect((await checkpoint('ls')).stdout).toMatch(
    /its holders are not running: no copy of .*\(was at .*ps\/0/,
  );
});

test('it is complete too when the export after it fails', async () => {
  const exports = JSON.stringify(join(home, 'worker-0/export'));
  const blocked = `
    import { writeFileSync } from 'node:fs';
    import { defineJob, tf } from 'shoal';
    export default defineJob({
      name: 'tables',
      input: () => ({ x: tf.constant([1, 2]) }),
      model({ input: { x } }) {
        const y = x.mul(tf.newVariable(tf.ones([2]), { name: 'w' }));
        return { loss: y.square().mean(), optimizer: tf.train.sgd(0.01), outputs: { y } };
      },
      train: { lastStep: 30, checkpoint: { everySecs: 600 } },
      export: {},
      hooks: ({ isChief }) => [{ afterRun: () => void (isChief && writeFileSync(${exports}, '')) }],
    });`;
  writeFileSync(join(scratch, 'job.ts'), blocked);
  const words = ['run', 'job.ts', '--ps', '2', '--workers', '2'];
  const { code, stdout, stderr } = await shoal(words, { cwd: scratch });
  expect(code, stdout + stderr).toBe(1);
  expect(stdout).toMatch(/model\.ckpt-\d+ is complete in \S+checkpoints/);
});

test('after an interrupt it is not copied, and one warning names the command that does', async () => {
  const words = ['run', 'job.ts', '--ps', '2', '--workers', '2', '--', '1000000000', '100', 'last', '0'];
  const { child, output, ended } = startShoal(words, { cwd: scratch });
  await vi.waitFor(() => expect(output.stdout).toMatch(/saved model\.ckpt-\d{3}/), { timeout: 120_000 });
  child.kill('SIGINT');
  await ended;
  const warning =
    /(model\.ckpt-\d+) is saved, but not complete in \S+: training was stopped; .*`shoal (checkpoint pull \S+ DIRECTORY --job tables)`/g;
  const found = [...(output.stdout + output.stderr).matchAll(warning)];
  expect(found, output.stdout + output.stderr).toHaveLength(1);
  const [, name, command] = found[0]!;
  const out = join(scratch, 'out');
  const pulled = await shoal(command!.replace('DIRECTORY', out).split(' '), { cwd: scratch });
  expect(pulled.stdout, pulled.stderr).toContain('verified');
  expect(readdirSync(out).filter((file) => isData(file) && file.startsWith(`${name}.`))).toHaveLength(2);
});

test('another value of the option is an error', async () => {
  const { code, stderr } = await shoal(['run', 'job.ts', '--', '30', '10', 'lats'], { cwd: scratch });
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /train\.checkpoint\.gather of job 'tables' must be 'last', 'all' or 'none'; it is "lats"/,
  );
});
