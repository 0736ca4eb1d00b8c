/**
 * `shoal checkpoint` on a real local cluster with damaged disks, while it runs and after it was stopped. Python's
 * TensorFlow reads the pulled checkpoints.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { CheckpointSummary } from '../../src/app/cli/checkpoint/health.js';
import { askPython } from '../python.js';
import { runCommand } from './run-command.js';
import { type ShoalProcess, shoal, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 240_000 });

const PYTHON = new URL('../../src/training/train/testing/saver.py', import.meta.url);
const WAIT_MS = 180_000;

/** Saves once at the start and once when it is stopped. */
const JOB = `
  import { defineJob, tf } from 'shoal';
  export default defineJob({
    name: 'tables',
    input: () => ({ x: tf.randomUniform([8]) }),
    model({ input }) {
      const table = tf.partitionedVariable('table', {
        shape: [5000, 20],
        initializer: tf.randomUniformInitializer(-1, 1),
        partitioner: tf.fixedSizePartitioner(2),
      });
      const w = tf.variable('w', { shape: [8], initializer: tf.randomUniformInitializer(-1, 1) });
      tf.newVariable(tf.constant(['one', '', 'drei']), { name: 'words', trainable: false });
      const loss = tf.sum(tf.square(w.sub(input.x))).add(tf.sum(tf.square(table.toOutput())).mul(0.0001));
      return { loss, optimizer: tf.train.adagrad(0.01) };
    },
    train: { lastStep: 100_000_000, checkpoint: { everySecs: 3600 } },
  });`;

let scratch: string;
let home: string;
let launcher: ShoalProcess | undefined;

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-checkpoint-cli-'));
  home = join(scratch, '.shoal/tables');
  writeFileSync(join(scratch, 'job.ts'), JOB);
  launcher = startShoal(['run', 'job.ts', '--ps', '2', '--workers', '1'], { cwd: scratch });
  const end = Date.now() + WAIT_MS;
  while (!/saved model\.ckpt-\d+/.test(launcher.output.stdout)) {
    if (Date.now() > end || launcher.child.exitCode !== null) {
      throw new Error(`no checkpoint was saved:\n${launcher.output.stdout}${launcher.output.stderr}`);
    }
    await new Promise((tick) => setTimeout(tick, 100));
  }
});

afterAll(async () => {
  launcher?.child.kill('SIGKILL');
  await launcher?.ended;
  rmSync(scratch, { recursive: true, force: true });
});

const checkpoint = (...args: readonly string[]) => runCommand('checkpoint', ...args, '--dir', home);

async function jsonOf<T>(...args: readonly string[]): Promise<T> {
  const { stdout, stderr } = await checkpoint(...args, '--json');
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as T;
}

const newest = async () => (await jsonOf<CheckpointSummary[]>('ls'))[0]!;

/** The path of a blob on the disk of a place. */
function blobAt(place: string, ending: string, { name, attempt }: CheckpointSummary): string {
  const root = join(home, place.replace('/', '-'), 'blobs/tables');
  if (ending !== 'manifest') return join(root, `${name}@${attempt}`, `${name}.${ending}`);
  const file = readdirSync(join(root, 'manifests')).find((one) => one.endsWith(`-${attempt}.json`));
  return join(root, 'manifests', file ?? 'none');
}

interface Inspected {
  readonly tensors: readonly { readonly name: string; readonly dtype: string; readonly shape: number[] }[];
  readonly files: readonly {
    readonly file: string;
    readonly places: readonly { readonly place: string }[];
  }[];
}

async function placesOf(ending: string): Promise<string[]> {
  const { files } = await jsonOf<Inspected>('inspect', 'latest');
  return files.find(({ file }) => file.endsWith(ending))!.places.map(({ place }) => place);
}

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at]! ^= 16;
  // Overwritten in place, as by a failing disk.
  writeFileSync(path, bytes, { flag: 'r+' });
}

const SHARD_0 = 'data-00000-of-00002';
const SHARD_1 = 'data-00001-of-00002';

describe('while the cluster runs', () => {
  afterEach(async () => {
    await checkpoint('repair', '--all');
  });

  test('ls lists size, copies, places and health', async () => {
    const one = await newest();
    expect(one).toMatchObject({
      job: 'tables',
      shards: 2,
      copies: 2,
      wanted: 2,
      health: 'complete',
      missing: [],
    });
    expect(one.bytes).toBeGreaterThan(2 * 5000 * 20 * 4);
    const { stdout } = await checkpoint('ls');
    expect(stdout).toMatch(/^name +step +saved +size +shards +copies +where +health\n/);
    expect(stdout).toMatch(new RegExp(`^${one.name} .* 2/2 .*ps/0 ps/1.* complete$`, 'm'));
  });

  test('inspect lists the tensors with slots and slices, and the places of each file', async () => {
    const { tensors, files } = await jsonOf<Inspected>('inspect', 'latest');
    const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
    expect([...byName.keys()].sort()).toEqual([
      'global_step',
      'table',
      'table/Adagrad',
      'w',
      'w/Adagrad',
      'words',
    ]);
    expect(byName.get('table')).toMatchObject({
      dtype: 'float32',
      shape: [5000, 20],
      slices: [{ slice: '0,2500:-' }, { slice: '2500,2500:-' }],
    });
    expect(files.find(({ file }) => file.endsWith('.index'))!.places).toHaveLength(3);
    const { stdout } = await checkpoint('inspect', 'latest', '--tensor', 'words');
    expect(stdout).toBe('words string [3]\n"one" "" "drei"\n');
  });

  test('an unknown name fails and the hint lists the existing ones', async () => {
    const { name } = await newest();
    const { stderr, code } = await checkpoint('inspect', 'model.ckpt-77777777');
    expect(code).toBe(1);
    expect(stderr).toMatch(new RegExp(`SHOAL_NOT_FOUND: .*model.ckpt-77777777\\n *hint: it has ${name}`));
  });

  test('verify finds no problem and exits with 0', async () => {
    const { stdout, code } = await checkpoint('verify', '--all');
    expect(stdout).toMatch(/^model\.ckpt-\d+: no damage found \(4 files in 10 copies, /);
    expect(code).toBe(0);
  });

  test('a flipped bit, a truncated file and missing ones are reported and repaired', async () => {
    const one = await newest();
    const [first] = await placesOf(SHARD_0);
    const [second] = await placesOf(SHARD_1);
    flip(blobAt(first!, SHARD_0, one), 1234);
    truncateSync(blobAt(second!, SHARD_1, one), 777);
    rmSync(blobAt('ps/0', 'index', one));
    rmSync(blobAt('ps/1', 'manifest', one));

    const verified = await checkpoint('verify');
    expect(verified.code).toBe(1);
    expect(verified.stdout).toMatch(/^model\.ckpt-\d+: 2 copies are damaged/);
    expect(verified.stdout).toMatch(
      new RegExp(`${SHARD_0} at ${first} on \\S+ is damaged in bytes \\[0, \\d+\\)`),
    );
    expect(verified.stdout).toMatch(
      new RegExp(`${SHARD_1} at ${second} on \\S+ has 777 bytes instead of \\d+`),
    );
    expect(await newest()).toMatchObject({
      health: 'degraded',
      missing: [expect.stringMatching(new RegExp(`${SHARD_1} has 1 of 2 copies \\(was at ${second}\\)`))],
    });

    const dry = await jsonOf<[{ actions: unknown[] }]>('repair', '--dry-run');
    expect(dry[0].actions).toMatchObject([
      { type: 'replace', file: expect.stringContaining(SHARD_0), place: first },
      { type: 'replace', file: expect.stringContaining(SHARD_1), place: second },
      { type: 'add', file: expect.stringContaining('index'), place: 'ps/0' },
      { type: 'add', file: 'manifest', place: 'ps/1' },
    ]);
    expect((await checkpoint('verify')).stdout).toBe(verified.stdout);

    const done = await checkpoint('repair');
    expect(done.code).toBe(0);
    expect(done.stdout).toMatch(/^model\.ckpt-\d+: 4 copies created\n/);
    expect((await checkpoint('verify')).code).toBe(0);
    expect(await newest()).toMatchObject({ health: 'complete', copies: 2 });
    for (const ending of ['index', 'manifest']) {
      for (const place of ['ps/0', 'ps/1', 'worker/0'])
        expect(existsSync(blobAt(place, ending, one))).toBe(true);
    }
    expect((await checkpoint('repair')).stdout).toMatch(/nothing to repair/);
  });

  test('pull skips a damaged copy, and Python reads bit for bit what inspect shows', async () => {
    const one = await newest();
    const [nearest] = await placesOf(SHARD_0);
    flip(blobAt(nearest!, SHARD_0, one), 99);
    const out = join(scratch, 'pulled');
    const { stdout, stderr, code } = await checkpoint('pull', String(one.step), out);
    expect(code).toBe(0);
    expect(stdout).toMatch(/model\.ckpt-\d+: 4 files, .* verified/);
    expect(stderr).toContain(`at ${nearest} is skipped`);
    const python = await askPython<Record<string, unknown>>(PYTHON, { read: join(out, one.name) });
    const { tensors } = await jsonOf<Inspected>('inspect', one.name);
    expect(Object.keys(python).sort()).toEqual(tensors.map(({ name }) => name).sort());
    for (const { name } of tensors) {
      const all = await jsonOf<{ values: unknown[] }>(
        'inspect',
        one.name,
        '--tensor',
        name,
        '--first',
        '100000',
      );
      expect([python[name]].flat(3)).toEqual(all.values);
    }
  });

  test('the newest is not removed without --force, and nothing without --yes', async () => {
    const { name } = await newest();
    const refused = await checkpoint('rm', 'latest', '--yes');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(new RegExp(`${name} is the newest checkpoint[\\s\\S]*--force`));
    const asks = await shoal(['checkpoint', 'rm', 'latest', '--force'], { cwd: scratch });
    expect(asks.code).toBe(2);
    expect(asks.stderr).toContain('pass --yes');
    expect((await newest()).name).toBe(name);
  });
});

describe('after the cluster was stopped', () => {
  let running: string;

  beforeAll(async () => {
    launcher!.child.kill('SIGINT');
    expect(await launcher!.ended).toBe(130);
    running = home;
  });

  beforeEach(() => {
    home = join(scratch, 'copy');
    cpSync(running, home, { recursive: true });
  });

  afterEach(() => {
    rmSync(home, { recursive: true, force: true });
    home = running;
  });

  test('its checkpoints are found in the task directories, newest first', async () => {
    const found = await jsonOf<CheckpointSummary[]>('ls');
    expect(found).toHaveLength(2);
    expect(found.map(({ health }) => health)).toEqual(['complete', 'complete']);
    expect(found[0]!.step).toBeGreaterThan(found[1]!.step);
    const { code, stdout } = await shoal(['checkpoint', 'ls'], { cwd: scratch });
    expect(code).toBe(0);
    expect(stdout.split('\n')).toHaveLength(4);
  });

  test('repair recreates the copies of a lost disk on the others', async () => {
    rmSync(join(home, 'ps-1'), { recursive: true });
    const before = await jsonOf<CheckpointSummary[]>('ls');
    expect(before.map(({ health, copies }) => ({ health, copies }))).toEqual([
      { health: 'degraded', copies: 1 },
      { health: 'degraded', copies: 1 },
    ]);
    expect((await checkpoint('repair', '--all')).code).toBe(0);
    const after = await jsonOf<CheckpointSummary[]>('ls');
    expect(after.map(({ health }) => health)).toEqual(['complete', 'complete']);
    expect((await checkpoint('verify', '--all')).code).toBe(0);
  });

  test('repair makes no copies in the directory of a worker that had left the cluster before the save', async () => {
    mkdirSync(join(home, 'worker-7/blobs'), { recursive: true });
    expect((await checkpoint('repair', '--dry-run')).stdout).toMatch(
      /^model\.ckpt-\d+: nothing to repair\n$/,
    );
    // It is better than no second copy.
    for (const task of ['ps-0', 'worker-0']) rmSync(join(home, task), { recursive: true });
    const dry = await checkpoint('repair', '--dry-run');
    expect(dry.stdout).toMatch(/the copy of \S+data-\S+ at worker\/7 on \S+ would be created/);
    expect(dry.stdout).not.toMatch(/(index|meta|manifest) at worker\/7/);
  });

  test('a checkpoint whose holders do not run is not reported as lost', async () => {
    for (const task of ['ps-0', 'ps-1']) renameSync(join(home, task), join(scratch, `away-${task}`));
    rmSync(blobAt('worker/0', SHARD_0, await newest()), { force: true });
    rmSync(blobAt('worker/0', SHARD_1, await newest()), { force: true });
    expect(await newest()).toMatchObject({ health: 'unavailable' });
    expect((await checkpoint('ls')).stdout).toMatch(
      /its holders are not running: no copy of \S+ \(was at [^)]*ps\/0[^)]*\)/,
    );
    const repair = await checkpoint('repair');
    expect(repair.code).toBe(1);
    expect(repair.stdout).toMatch(/cannot be repaired: its holders are not running \(ps\/\d/);
    // With the directories of the others it is complete.
    for (const task of ['ps-0', 'ps-1']) renameSync(join(scratch, `away-${task}`), join(scratch, task));
    const dirs = ['ps-0/blobs', 'ps-1/blobs'].map((dir) => join(scratch, dir));
    const all = [...dirs, join(home, 'worker-0/blobs')].join(',');
    const pulled = await runCommand('checkpoint', 'pull', 'latest', join(scratch, 'far'), '--dirs', all);
    expect(pulled, pulled.stderr).toMatchObject({ stdout: expect.stringContaining('verified') });
  });

  test('a checkpoint with a file without any copy is reported as lost, also by repair', async () => {
    const one = await newest();
    for (const place of await placesOf(SHARD_0)) rmSync(blobAt(place, SHARD_0, one));
    expect(await newest()).toMatchObject({
      health: 'lost',
      missing: [expect.stringContaining(`no copy of ${one.name}.${SHARD_0}`)],
    });
    const { code, stdout } = await checkpoint('repair');
    expect(code).toBe(1);
    expect(stdout).toContain(`${one.name}.${SHARD_0} is lost`);
  });

  test('rm removes an older checkpoint with all its copies', async () => {
    const [newer, older] = await jsonOf<CheckpointSummary[]>('ls');
    expect((await checkpoint('rm', older!.name, '--yes')).stdout).toBe(`removed ${older!.name}\n`);
    expect((await jsonOf<CheckpointSummary[]>('ls')).map(({ name }) => name)).toEqual([newer!.name]);
    for (const task of readdirSync(home)) {
      const left = readdirSync(join(home, task, 'blobs'), { recursive: true, encoding: 'utf8' });
      expect(left.filter((file) => file.includes(older!.attempt))).toEqual([]);
    }
  });

  test('a checkpoint of Python is pushed, replicated, and pulled byte for byte', async () => {
    const logs = join(scratch, 'logs');
    const { paths } = await askPython<{ paths: string[] }>(PYTHON, { write: logs });
    const parts = paths.find((path) => path.includes('parts'))!;
    expect((await checkpoint('push', parts)).stdout).toMatch(
      /^model\.ckpt-2 is now the newest checkpoint of job tables: .* 2 copies/,
    );
    expect(await newest()).toMatchObject({
      name: 'model.ckpt-2',
      consistency: 'imported',
      health: 'complete',
    });
    const out = join(scratch, 'again');
    expect((await checkpoint('pull', 'latest', out)).code).toBe(0);
    const files = readdirSync(join(logs, 'parts')).filter((file) => file.startsWith('model.ckpt-2.'));
    expect(files.length).toBeGreaterThanOrEqual(3);
    for (const file of files) {
      expect(readFileSync(join(out, file)).equals(readFileSync(join(logs, 'parts', file)))).toBe(true);
    }
  });
});

describe('on a directory', () => {
  test('push creates a store that the other commands read', async () => {
    const url = `file:${join(scratch, 'store')}`;
    const missing = await runCommand('checkpoint', 'ls', '--store', url);
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('there is no directory') });
    const plain = join(scratch, 'plain');
    expect((await checkpoint('pull', 'latest', plain)).code).toBe(0);
    expect((await runCommand('checkpoint', 'push', plain, '--store', url)).code).toBe(0);
    expect((await runCommand('checkpoint', 'verify', '--store', url)).stdout).toMatch(/no damage found/);
    const { stdout } = await runCommand('checkpoint', 'ls', '--store', url);
    expect(stdout).toMatch(/ 1\/1 +here \(1 directory\) +complete$/m);
  });

  test.each([
    [['--store', 's3:bucket'], 1, 'is not a store that can be opened without a cluster'],
    [['--store', 'file:x', '--agent', 'a:1'], 2, '--store and --agent are mutually exclusive'],
    [['--dirs', 'no/such/place'], 1, 'there is no directory'],
    [['--dir', 'no/such/place'], 1, 'no cluster runs in no/such/place'],
    [['--agent', '127.0.0.1:1'], 1, 'no task of the cluster answers'],
  ])('%o is refused with a reason', async (args, expected, reason) => {
    const { code, stderr } = await runCommand('checkpoint', 'ls', ...args);
    expect(code).toBe(expected);
    expect(stderr).toContain(reason);
  });
});
