/**
 * Installs the pinned TensorFlow in the per-user cache: pip downloads the wheel by name and version, its sha256 is
 * checked, the two libraries and the C headers are unpacked and checked, and one rename publishes them. An interruption
 * leaves either nothing or a verified wheel, from which the next set-up resumes.
 *
 * All work happens in `<install folder>.setup`, which belongs to the holder of `<install folder>.lock`.
 *
 * A small library for checksums is installed in the same way. It is optional: without it, a slower one is used.
 */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { checkSpace } from './disk-space.mjs';
import { SetupError } from './errors.mjs';
import {
  cacheDir,
  crc32cDir,
  crc32cLibrary,
  installDir,
  pinFor,
  platformKey,
  pythonRecordFile,
  readLock,
  search,
} from './locate.mjs';
import { withLock } from './lock-file.mjs';
import { startProgress } from './progress.mjs';
import { findPython, findPythonTensorFlow, pip } from './python.mjs';
import { extractEntry, listWheel, sha256Of } from './wheel.mjs';

/** The headers of the C API, and those that they include. */
const HEADERS =
  /^tensorflow\/(include\/(?:tensorflow\/c\/|xla\/tsl\/c\/|(?:tensorflow\/core|tsl)\/platform\/ctstring).*\.h)$/;

/** How long the installation of the checksum library may take, and after which time a failed one is tried again. */
const CRC32C_MS = 20_000;
const CRC32C_RETRY_MS = 24 * 3600_000;

/**
 * Ensures that the libraries are installed and returns the location of TensorFlow's.
 * @param {{ env?: object, lock?: object, platform?: string, signal?: AbortSignal, waitMs?: number,
 *   retriesAll?: boolean, log?: (line: string) => void }} [options]
 * @returns {Promise<{ dir: string, ccPath: string, frameworkPath: string, source: string, version?: string,
 *   fetched: boolean }>}
 */
export async function fetchTensorFlow({
  env = process.env,
  lock = readLock(),
  platform = platformKey(),
  signal,
  waitMs,
  retriesAll = false,
  log = () => {},
} = {}) {
  const options = { env, lock, platform, signal, waitMs, retriesAll, log };
  const place = await installTensorFlow(options);
  await installCrc32c(options);
  return place;
}

async function installTensorFlow({ env, lock, platform, signal, waitMs, log }) {
  const look = () => search({ env, lock, platform });
  const present = look();
  if (present.found) return { ...present.found, fetched: false };
  if (env.SHOAL_TF_DIR) throw notFound(present.searched);

  const pin = pinFor(lock, platform);
  const python = await findPython({ env, signal });
  if (await recordPython(pin, python, { env, signal, log })) return { ...look().found, fetched: false };

  const target = installDir(pin, env);
  return await withLock(
    `${target}.lock`,
    { what: `TensorFlow ${pin.version}`, waitMs, signal, log },
    async () => {
      const meanwhile = look();
      if (meanwhile.found) return { ...meanwhile.found, fetched: false };
      const work = `${target}.setup`;
      await mkdir(work, { recursive: true });
      const wheel = await obtainWheel(pin, python, work, { env, signal, log });
      await unpack(pin, wheel, join(work, 'unpacked'), { signal }).catch((error) => {
        throw error.code === 'ENOSPC' ? diskFilled(target, error) : error;
      });
      await publish(join(work, 'unpacked'), target, work);
      return { ...look().found, fetched: true };
    },
  );
}

/**
 * Installs the checksum library of the platform, if one is pinned. A failure is logged, takes at most some seconds, and
 * is not repeated for a day, unless the user asks for set-up: a machine without network would pay for it at every start.
 */
async function installCrc32c({ env, lock, platform, signal, retriesAll, log }) {
  const pinned = lock.platforms[platform]?.crc32c;
  if (!pinned) return;
  const what = `${pinned.package} ${pinned.version}`;
  try {
    const pin = pinFor(lock, platform);
    const target = crc32cDir(pin, env);
    const isInstalled = () => crc32cLibrary({ env, lock, platform }) !== undefined;
    if (isInstalled()) return;
    const failure = `${target}.failed`;
    const failedAt = (await stat(failure).catch(() => undefined))?.mtimeMs ?? 0;
    if (!retriesAll && Date.now() - failedAt < CRC32C_RETRY_MS) return;
    await withLock(`${target}.lock`, { what, waitMs: CRC32C_MS, signal, log }, async () => {
      if (isInstalled()) return;
      const work = `${target}.setup`;
      await rm(work, { recursive: true, force: true });
      await mkdir(work, { recursive: true });
      const limit = AbortSignal.timeout(CRC32C_MS);
      const either = signal ? AbortSignal.any([signal, limit]) : limit;
      try {
        const python = await findPython({ env, signal: either });
        const wheel = join(work, pinned.wheel.file);
        const options = { env, signal: either, isSmall: true };
        await download(pinned, what, python, join(work, `pip-${process.pid}`), wheel, options);
        await extract(wheel, await listWheel(wheel), pinned.library, join(work, 'unpacked'), { signal });
        await publish(join(work, 'unpacked'), target, work);
        await rm(failure, { force: true });
      } catch (error) {
        if (!signal?.aborted) await writeFile(failure, '');
        throw error;
      } finally {
        await rm(work, { recursive: true, force: true });
      }
    });
  } catch (error) {
    signal?.throwIfAborted();
    const isLate = error.name === 'TimeoutError';
    const why = isLate ? `not within ${CRC32C_MS / 1000} s` : (error.reason ?? error.code ?? error.message);
    log(`${what} could not be installed (${why}): a slower library computes checksums`);
  }
}

/** Records a Python TensorFlow that can be used instead of a download; returns whether there is one. */
async function recordPython(pin, python, { env, signal, log }) {
  if (env.SHOAL_TF === 'cache') return false;
  const installed = await findPythonTensorFlow(python, { env, signal });
  const asked = env.SHOAL_TF === 'python';
  const files = Object.values(pin.libraries).map(({ file }) => file);
  const missing = installed ? files.find((file) => !existsSync(join(installed.dir, file))) : files[0];
  if (!installed || missing) {
    if (!asked) return false;
    throw new SetupError(
      'SHOAL_LIBRARY',
      'no-python-tensorflow',
      installed
        ? `TensorFlow ${installed.version} in ${installed.dir} has no ${missing}`
        : `SHOAL_TF=python, but ${python.executable} has no TensorFlow`,
      { hint: `Run \`${python.command} -m pip install ${pin.package}==${pin.version}\`, or unset SHOAL_TF.` },
    );
  }
  if (!asked && installed.version !== pin.version) return false;
  const file = pythonRecordFile(pin, env);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(`${file}.${process.pid}`, JSON.stringify({ ...installed, python: python.executable }));
  await rename(`${file}.${process.pid}`, file);
  log(`using TensorFlow ${installed.version} of ${python.executable}`);
  return true;
}

/** Returns a verified wheel: the one of an interrupted set-up, or one that pip downloads. */
async function obtainWheel(pin, python, work, { env, signal, log }) {
  const wheel = join(work, pin.wheel.file);
  for (const name of await readdir(work)) {
    if (name !== pin.wheel.file) await rm(join(work, name), { recursive: true, force: true });
  }
  const kept = existsSync(wheel) && (await sha256Of(wheel, { signal })) === pin.wheel.sha256;
  if (!kept) await rm(wheel, { force: true });
  await checkCacheSpace(pin, kept, env);
  if (kept) {
    log('resuming with the wheel that an earlier set-up downloaded');
    return wheel;
  }
  const what = `TensorFlow ${pin.version}`;
  await download(pin, what, python, join(work, `pip-${process.pid}`), wheel, { env, signal });
  return wheel;
}

/** With `isSmall`: without progress lines and repeated attempts. */
async function download(pin, what, python, dir, wheel, { env, signal, isSmall = false }) {
  await mkdir(dir, { recursive: true });
  const progress = isSmall
    ? { update() {}, end() {} }
    : startProgress({ label: `downloading ${what}`, total: pin.wheel.size });
  const watch = setInterval(async () => progress.update(Math.min(pin.wheel.size, await bytesIn(dir))), 250);
  let done = false;
  try {
    await pip(
      python,
      [
        ...[
          'download',
          '--quiet',
          '--no-deps',
          '--only-binary=:all:',
          '--no-cache-dir',
          '--retries',
          isSmall ? '0' : '3',
          '--dest',
          dir,
        ],
        ...['--platform', pin.pip.platform, '--python-version', pin.pip.python],
        ...['--implementation', 'cp', '--abi', pin.pip.abi, `${pin.package}==${pin.version}`],
      ],
      // pip downloads into its temporary folder first: inside `dir` its progress is visible, and it is cleaned up.
      { what: `downloading ${what}`, env: { ...env, TMPDIR: dir }, signal },
    );
    done = true;
  } finally {
    clearInterval(watch);
    progress.end(done);
    if (!done) await rm(dir, { recursive: true, force: true });
  }
  const file = join(dir, pin.wheel.file);
  const actual = existsSync(file) ? await sha256Of(file, { signal }) : 'none, because the file is missing';
  if (actual !== pin.wheel.sha256) {
    await rm(dir, { recursive: true, force: true });
    throw wrongHash(pin.wheel, actual);
  }
  await rename(file, wheel);
  await rm(dir, { recursive: true, force: true });
}

async function unpack(pin, wheel, dir, { signal }) {
  const entries = await listWheel(wheel);
  const libraries = [pin.libraries.framework, pin.libraries.cc];
  const total = libraries.reduce((sum, { size }) => sum + size, 0);
  const progress = startProgress({ label: 'unpacking', total });
  let bytes = 0;
  const onBytes = (count) => {
    bytes += count;
    progress.update(bytes);
  };
  let done = false;
  try {
    for (const library of libraries) {
      const pinned = { ...library, entry: `tensorflow/${library.file}` };
      await extract(wheel, entries, pinned, dir, { signal, onBytes });
    }
    for (const entry of entries) {
      const header = HEADERS.exec(entry.name)?.[1];
      if (header && !header.includes('..')) await extractEntry(wheel, entry, join(dir, header), { signal });
    }
    done = true;
  } finally {
    progress.end(done);
    if (!done) await rm(dir, { recursive: true, force: true });
  }
}

/** Extracts a library from the entries of a wheel to a directory, and compares its hash. */
async function extract(wheel, entries, library, dir, { signal, onBytes }) {
  const entry = entries.find(({ name }) => name === library.entry);
  const actual = entry && (await extractEntry(wheel, entry, join(dir, library.file), { signal, onBytes }));
  if (actual !== library.sha256) throw wrongHash(library, actual ?? 'none, because the file is missing');
}

/** A damaged install folder is renamed first: processes that have its libraries mapped keep them. */
async function publish(unpacked, target, work) {
  if (existsSync(target)) await rename(target, join(work, 'replaced'));
  await rename(unpacked, target);
  await rm(work, { recursive: true, force: true });
}

/** The bytes that must be free in the cache for a set-up. */
export function spaceNeeded(pin, haveWheel = false) {
  const libraries = pin.libraries.cc.size + pin.libraries.framework.size;
  // pip copies the wheel out of its temporary folder, so there are two for a moment.
  return haveWheel ? libraries : Math.max(2 * pin.wheel.size, pin.wheel.size + libraries);
}

async function checkCacheSpace(pin, haveWheel, env) {
  const hint = 'Free some space, or set SHOAL_CACHE to a folder on a larger disk.';
  await checkSpace(`installing TensorFlow ${pin.version}`, cacheDir(env), spaceNeeded(pin, haveWheel), {
    hint,
  });
}

/** Other programs may fill the disk after the space was checked. */
function diskFilled(target, cause) {
  return new SetupError('SHOAL_NO_SPACE', 'full-disk', `the disk became full while ${target} was written`, {
    hint: 'Free some space, or set SHOAL_CACHE to a folder on a larger disk.',
    cause,
  });
}

/** The size of a folder, for display: files that vanish meanwhile are ignored. */
async function bytesIn(dir) {
  let sum = 0;
  const names = await readdir(dir, { recursive: true }).catch(() => []);
  for (const name of names) {
    const info = await stat(join(dir, name)).catch(() => undefined);
    if (info?.isFile()) sum += info.size;
  }
  return sum;
}

function wrongHash(wanted, actual) {
  return new SetupError(
    'SHOAL_CORRUPT',
    'wrong-hash',
    `${wanted.file} is not the pinned file: its sha256 is ${actual}, expected ${wanted.sha256}`,
    {
      hint: 'Run set-up again. If the error persists, a mirror or a local PIP_FIND_LINKS folder serves another file under this name.',
    },
  );
}

function notFound(searched) {
  const places = searched.map(({ place, why }) => `\n  - ${place}: ${why}`).join('');
  return new SetupError(
    'SHOAL_LIBRARY',
    'not-found',
    `SHOAL_TF_DIR does not contain TensorFlow's libraries:${places}`,
    {
      hint: 'Point SHOAL_TF_DIR at the folder that holds both libraries, or unset it.',
    },
  );
}
