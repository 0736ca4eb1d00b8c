/** Set-up in real processes: success, concurrent runs, and every kind of failure. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { processSpace } from '../../scripts/setup/process-space.mjs';
import {
  type FakeTensorFlow,
  makeFakeTensorFlow,
  type PackageIndex,
  servePackages,
} from './fake-tensorflow.js';
import { childEnvironment, SETUP, type SetupRun, startSetup, waitUntil } from './run-setup.js';

let scratch: string;
let fake: FakeTensorFlow;
let cache: string;
let count = 0;
const servers: PackageIndex[] = [];

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-setup-'));
  fake = makeFakeTensorFlow(join(scratch, 'wheel'));
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

beforeEach(() => {
  cache = join(scratch, `cache-${count++}`);
});

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
  rmSync(cache, { recursive: true, force: true });
});

async function serve({ isHeld = false, tensorflow = fake } = {}): Promise<PackageIndex> {
  const server = await servePackages(tensorflow.wheelFile, isHeld);
  servers.push(server);
  return server;
}

const start = (run: Partial<SetupRun> = {}) => startSetup({ lockFile: fake.lockFile, cache, ...run });
const installed = () => join(cache, 'tensorflow-0.0.7-test-any');

/** A modified copy of the lock file. */
function alteredLock(alter: (lock: FakeTensorFlow['lock']) => void): string {
  const lock = structuredClone(fake.lock);
  alter(lock);
  const file = join(scratch, `lock-${count++}.json`);
  writeFileSync(file, JSON.stringify(lock));
  return file;
}

describe('an undisturbed set-up', () => {
  test('leaves the two libraries and the C headers in the cache, and nothing else', async () => {
    const index = await serve();
    const { code, stdout, stderr } = await start({ index: index.url }).ended;
    expect(stderr).toContain('downloading TensorFlow 0.0.7');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      dir: installed(),
      source: 'cache',
      version: '0.0.7',
      fetched: true,
    });
    expect(readdirSync(cache)).toEqual(['tensorflow-0.0.7-test-any']);
    expect(readdirSync(installed()).sort()).toEqual([
      'include',
      'libtensorflow_cc.so.2',
      'libtensorflow_framework.so.2',
    ]);
    expect(readFileSync(join(installed(), 'include/tensorflow/c/c_api.h'), 'utf8')).toBe('/* header */');
  });

  test('does nothing, and needs no Python, when the libraries exist', async () => {
    const index = await serve();
    await start({ index: index.url }).ended;
    const again = await start({ env: { PATH: '/nowhere' } }).ended;
    expect(again.stderr).toBe('');
    expect(JSON.parse(again.stdout)).toMatchObject({ dir: installed(), fetched: false });
  });

  /** The lock file with a checksum library, for which a file of the fake wheel stands in. */
  const withChecksums = (sha256?: string) =>
    alteredLock((lock) => {
      const pin = lock.platforms['test-any']!;
      const { file, ...framework } = pin.libraries.framework;
      const library = { ...framework, entry: `tensorflow/${file}`, file: 'libcrc32c.so.1' };
      pin.crc32c = {
        ...{ package: pin.package, pip: pin.pip, version: lock.version, wheel: pin.wheel },
        library: sha256 === undefined ? library : { ...library, sha256 },
      };
    });

  test('installs the checksum library too, once', async () => {
    const index = await serve();
    const lockFile = withChecksums();
    const { code } = await start({ index: index.url, lockFile }).ended;
    expect(code).toBe(0);
    expect(readdirSync(cache).sort()).toEqual(['crc32c-0.0.7-test-any', 'tensorflow-0.0.7-test-any']);
    expect(readFileSync(join(cache, 'crc32c-0.0.7-test-any/libcrc32c.so.1'), 'utf8')).toBe('framework');
    const again = await start({ lockFile, env: { PATH: '/nowhere' } }).ended;
    expect(again).toMatchObject({ code: 0, stderr: '' });
  });

  test('succeeds without the checksum library, says so, and leaves nothing of it', async () => {
    const index = await serve();
    const lockFile = withChecksums('another');
    const { code, stderr } = await start({ index: index.url, lockFile }).ended;
    expect(code).toBe(0);
    expect(stderr).toContain(
      'tensorflow-cpu 0.0.7 could not be installed (wrong-hash): a slower library computes checksums',
    );
    const failed = 'crc32c-0.0.7-test-any.failed';
    expect(readdirSync(cache).sort()).toEqual([failed, 'tensorflow-0.0.7-test-any']);
    // It is not tried again at every start, but after a day.
    expect(await start({ lockFile }).ended).toMatchObject({ code: 0, stderr: '' });
    utimesSync(join(cache, failed), new Date(0), new Date(0));
    const repaired = await start({ index: index.url, lockFile: withChecksums() }).ended;
    expect(repaired).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(cache).sort()).toEqual(['crc32c-0.0.7-test-any', 'tensorflow-0.0.7-test-any']);
    writeFileSync(join(cache, 'crc32c-0.0.7-test-any/libcrc32c.so.1'), 'FRAMEWORK');
    await start({ index: index.url, lockFile: withChecksums() }).ended;
    expect(readFileSync(join(cache, 'crc32c-0.0.7-test-any/libcrc32c.so.1'), 'utf8')).toBe('framework');
  });

  test('needs no cache for the libraries in SHOAL_TF_DIR', async () => {
    const index = await serve();
    await start({ index: index.url }).ended;
    const run = { lockFile: withChecksums(), cache: join(fake.lockFile, 'below-a-file') };
    const { code, stderr } = await start({ ...run, env: { SHOAL_TF_DIR: installed() } }).ended;
    expect(stderr).toContain('(ENOTDIR): a slower library computes checksums');
    expect(code).toBe(0);
  });

  test('replaces a truncated library in the cache', async () => {
    const index = await serve();
    await start({ index: index.url }).ended;
    writeFileSync(join(installed(), 'libtensorflow_cc.so.2'), 'short');
    const { stdout } = await start({ index: index.url }).ended;
    expect(JSON.parse(stdout)).toMatchObject({ fetched: true });
    expect(readFileSync(join(installed(), 'libtensorflow_cc.so.2')).length).toBe(3_000_000);
  });
});

describe('two set-ups at once', () => {
  test('download once; the second waits, names the first, and finds the libraries', async () => {
    const index = await serve({ isHeld: true });
    const first = start({ index: index.url });
    await waitUntil('the first downloads', () => index.open() === 1);
    const second = start({ index: index.url });
    await waitUntil('the second waits', () => second.stderr().includes('waiting for process'));
    index.release();
    const [one, two] = await Promise.all([first.ended, second.ended]);
    expect([one.code, two.code]).toEqual([0, 0]);
    expect(index.downloads()).toBe(1);
    expect(two.stderr).toContain(`waiting for process ${first.child.pid}`);
    expect(JSON.parse(two.stdout)).toMatchObject({ dir: installed(), fetched: false });
  });

  test('started simultaneously on an empty cache download once', async () => {
    const index = await serve();
    const ended = await Promise.all([1, 2, 3].map(() => start({ index: index.url }).ended));
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(index.downloads()).toBe(1);
  });

  test('do not wait forever: at its deadline the second fails and names the first', async () => {
    const index = await serve({ isHeld: true });
    const first = start({ index: index.url });
    await waitUntil('the first downloads', () => index.open() === 1);
    const second = await start({ index: index.url, args: ['--wait', '0.3'] }).ended;
    expect(second.code).toBe(1);
    expect(second.stderr).toContain('SHOAL_TIMEOUT (busy)');
    expect(second.stderr).toContain(`process ${first.child.pid}`);
    index.release();
    expect((await first.ended).code).toBe(0);
  });
});

describe('an interrupted set-up', () => {
  test('killed while it downloads starts again', async () => {
    const slow = await serve({ isHeld: true });
    const first = start({ index: slow.url });
    await waitUntil('the download is in progress', () => slow.open() === 1);
    first.child.kill('SIGKILL');
    expect((await first.ended).signal).toBe('SIGKILL');
    // Without its parent pip would wait for the index for as long as its own limit, 15 s, several times.
    await waitUntil('pip has ended', () => slow.open() === 0, 10_000);
    expect(existsSync(installed())).toBe(false);
    const index = await serve();
    const { code, stdout } = await start({ index: index.url }).ended;
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ fetched: true });
    expect(readdirSync(cache)).toEqual(['tensorflow-0.0.7-test-any']);
  });

  test('killed while it unpacks resumes with the downloaded wheel', async () => {
    const large = makeFakeTensorFlow(join(scratch, 'large'), 200_000_000);
    const index = await serve({ tensorflow: large });
    const first = start({ lockFile: large.lockFile, index: index.url });
    const begun = join(`${installed()}.setup`, 'unpacked', 'libtensorflow_cc.so.2');
    await waitUntil('the unpacking is in progress', () => existsSync(begun));
    first.child.kill('SIGKILL');
    expect((await first.ended).signal).toBe('SIGKILL');
    expect(existsSync(installed())).toBe(false);
    const { code, stderr } = await start({ lockFile: large.lockFile, index: index.url }).ended;
    expect(code).toBe(0);
    expect(stderr).toContain('resuming with the wheel');
    expect(index.downloads()).toBe(1);
    expect(readdirSync(cache)).toEqual(['tensorflow-0.0.7-test-any']);
  });

  test('by Ctrl-C exits with 130, ends pip, and leaves neither lock nor library', async () => {
    const index = await serve({ isHeld: true });
    const run = start({ index: index.url });
    await waitUntil('the download is in progress', () => index.open() === 1);
    run.child.kill('SIGINT');
    const { code, stderr } = await run.ended;
    expect(code).toBe(130);
    expect(stderr).toContain('SHOAL_ABORTED (interrupted)');
    await waitUntil('pip has disconnected', () => index.open() === 0);
    expect(readdirSync(cache)).toEqual(['tensorflow-0.0.7-test-any.setup']);
    expect(readdirSync(join(cache, 'tensorflow-0.0.7-test-any.setup'))).toEqual([]);
  });

  test('leaves a lock that is taken over even if its process id was reused', async () => {
    const index = await serve();
    mkdirSync(cache, { recursive: true });
    const holder = { token: 'x', pid: process.pid, space: processSpace(), started: '1', what: 'earlier' };
    writeFileSync(`${installed()}.lock`, JSON.stringify(holder));
    const { code } = await start({ index: index.url, args: ['--wait', '5'] }).ended;
    expect(code).toBe(0);
  });

  test('in a container with the same host name waits: process ids of another container mean nothing', async () => {
    const index = await serve();
    mkdirSync(cache, { recursive: true });
    // No process here has the id of the holder, which runs.
    const holder = { token: 'x', pid: 4_194_305, host: hostname(), space: 'another', what: 'elsewhere' };
    writeFileSync(`${installed()}.lock`, JSON.stringify(holder));
    const { code, stderr } = await start({ index: index.url, args: ['--wait', '1'] }).ended;
    expect(code).toBe(1);
    expect(stderr).toContain('SHOAL_TIMEOUT (busy)');
    expect(index.downloads()).toBe(0);
  });
});

describe('a set-up that cannot succeed reports the reason and a hint', () => {
  async function failure(run: Partial<SetupRun>): Promise<string> {
    const { code, stderr } = await start(run).ended;
    expect(code).toBe(1);
    expect(stderr).toContain('hint: ');
    expect(existsSync(installed())).toBe(false);
    return stderr;
  }

  test('the wheel has another hash', async () => {
    const index = await serve();
    const lockFile = alteredLock((lock) => {
      lock.platforms['test-any']!.wheel.sha256 = '0'.repeat(64);
    });
    expect(await failure({ index: index.url, lockFile })).toContain(
      'SHOAL_CORRUPT (wrong-hash): tensorflow_cpu-0.0.7',
    );
    expect(readdirSync(`${installed()}.setup`)).toEqual([]);
  });

  test('a library in the wheel has another hash', async () => {
    const index = await serve();
    const lockFile = alteredLock((lock) => {
      lock.platforms['test-any']!.libraries.cc.sha256 = '0'.repeat(64);
    });
    expect(await failure({ index: index.url, lockFile })).toContain('(wrong-hash): libtensorflow_cc.so.2');
  });

  test('there is no Python', async () => {
    expect(await failure({ env: { PATH: '/nowhere' } })).toContain('SHOAL_UNSUPPORTED (no-python)');
  });

  test('Python has no pip', async () => {
    const bare = join(scratch, 'bare');
    execFileSync(process.env.SHOAL_ORACLE_PYTHON ?? 'python3', ['-m', 'venv', '--without-pip', bare]);
    const env = { SHOAL_PYTHON: join(bare, 'bin/python') };
    expect(await failure({ env })).toContain('SHOAL_UNSUPPORTED (no-pip)');
  });

  test('the package index cannot be reached', async () => {
    expect(await failure({ index: 'http://127.0.0.1:9/simple' })).toContain('SHOAL_UNREACHABLE (no-network)');
  });

  test('the package index does not have the wheel', async () => {
    const env = { PIP_NO_INDEX: '1', PIP_FIND_LINKS: join(scratch, 'bare') };
    expect(await failure({ env })).toContain('SHOAL_NOT_FOUND (not-offered)');
  });

  test('the disk is too small, detected before the download', async () => {
    const index = await serve();
    const lockFile = alteredLock((lock) => {
      lock.platforms['test-any']!.libraries.cc.size = 1e15;
    });
    expect(await failure({ index: index.url, lockFile })).toContain('SHOAL_NO_SPACE (full-disk)');
    expect(index.downloads()).toBe(0);
  });

  test.runIf(process.platform === 'linux')(
    'the disk becomes full while the libraries are unpacked',
    async () => {
      const lockFile = alteredLock((lock) => {
        // A lock file with a small size passes the check, as if another program had used up the space meanwhile.
        lock.platforms['test-any']!.libraries.cc.size = 1;
      });
      mkdirSync(cache, { recursive: true });
      const setup = [process.execPath, SETUP, '--lock', lockFile, '--platform', 'test-any']
        .map(quote)
        .join(' ');
      const script = `mount -t tmpfs -o size=1m tmpfs ${quote(cache)} && ${setup}; ls ${quote(cache)}/*.setup >&2`;
      const run = spawnSync('unshare', ['--user', '--map-root-user', '--mount', 'sh', '-c', script], {
        env: childEnvironment({
          SHOAL_CACHE: cache,
          PIP_NO_INDEX: '1',
          PIP_FIND_LINKS: join(scratch, 'wheel'),
        }),
        encoding: 'utf8',
      });
      expect(run.stderr).toContain('SHOAL_NO_SPACE (full-disk)');
      expect(run.stderr).not.toContain('unpacked');
    },
  );

  test('nothing is pinned for the platform', async () => {
    const stderr = await failure({ platform: 'sunos-sparc' });
    expect(stderr).toContain('SHOAL_UNSUPPORTED (unknown-platform)');
    expect(stderr).toContain('sunos-sparc');
  });

  test('SHOAL_TF_DIR does not exist', async () => {
    const stderr = await failure({ env: { SHOAL_TF_DIR: '/nowhere/tf' } });
    expect(stderr).toContain('SHOAL_LIBRARY (not-found)');
    expect(stderr).toContain('/nowhere/tf: the folder does not exist');
  });

  test('SHOAL_TF has an unknown value', async () => {
    expect(await failure({ env: { SHOAL_TF: 'conda' } })).toContain('SHOAL_CONFIG (bad-setting)');
  });
});

describe('a Python TensorFlow', () => {
  const oracle = () => ({ SHOAL_PYTHON: process.env.SHOAL_ORACLE_PYTHON });

  test('of the pinned version is used instead of a download, and later without Python', async () => {
    const first = await start({ lockFile: undefined, env: oracle() }).ended;
    expect(first.stderr).toContain('using TensorFlow 2.21.0');
    expect(JSON.parse(first.stdout)).toMatchObject({ source: 'python', version: '2.21.0', fetched: false });
    const later = await start({ lockFile: undefined, env: { PATH: '/nowhere' } }).ended;
    expect(JSON.parse(later.stdout)).toMatchObject({ source: 'python', version: '2.21.0' });
  });

  test('that SHOAL_TF=python requests and that is not installed is an error', async () => {
    const bare = join(scratch, 'bare-tf');
    execFileSync(process.env.SHOAL_ORACLE_PYTHON ?? 'python3', ['-m', 'venv', '--without-pip', bare]);
    const env = { SHOAL_TF: 'python', SHOAL_PYTHON: join(bare, 'bin/python') };
    const { code, stderr } = await start({ env }).ended;
    expect(code).toBe(1);
    expect(stderr).toContain('SHOAL_LIBRARY (no-python-tensorflow)');
  });
});

function quote(word: string): string {
  return `'${word}'`;
}
