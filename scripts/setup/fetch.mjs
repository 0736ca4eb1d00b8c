/**
 * Puts the pinned TensorFlow into the per-user cache: pip downloads the wheel by name and version, its
 * sha256 is checked, the two libraries and the C headers are unpacked and checked, and one rename makes
 * them visible. Whatever interrupts this leaves either nothing or a verified wheel to go on from.
 *
 * All work happens in `<install folder>.setup`, which belongs to the holder of `<install folder>.lock`.
 */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { checkSpace } from './disk-space.mjs';
import { SetupError } from './errors.mjs';
import { cacheDir, installDir, pinFor, platformKey, pythonRecordFile, readLock, search } from './locate.mjs';
import { withLock } from './lock-file.mjs';
import { startProgress } from './progress.mjs';
import { findPython, findPythonTensorFlow, pip } from './python.mjs';
import { extractEntry, listWheel, sha256Of } from './wheel.mjs';

/** The headers that the C API consists of: its own, and the few that they include for plain C. */
const HEADERS =
  /^tensorflow\/(include\/(?:tensorflow\/c\/|xla\/tsl\/c\/|(?:tensorflow\/core|tsl)\/platform\/ctstring).*\.h)$/;

/**
 * Makes sure that TensorFlow's libraries are there and returns where.
 * @param {{ env?: object, lock?: object, platform?: string, signal?: AbortSignal, waitMs?: number,
 *   say?: (line: string) => void }} [options]
 * @returns {Promise<{ dir: string, ccPath: string, frameworkPath: string, source: string, version?: string, fetched: boolean }>}
 */
export async function fetchTensorFlow(options = {}) {
  const {
    env = process.env,
    lock = readLock(),
    platform = platformKey(),
    signal,
    waitMs,
    say = () => {},
  } = options;
  const look = () => search({ env, lock, platform });
  const present = look();
  if (present.found) return { ...present.found, fetched: false };
  if (env.SHOAL_TF_DIR) throw notThere(present.searched);

  const pin = pinFor(lock, platform);
  const python = await findPython({ env, signal });
  if (await adoptPython(pin, python, { env, signal, say })) return { ...look().found, fetched: false };

  const target = installDir(pin, env);
  return await withLock(
    `${target}.lock`,
    { what: `TensorFlow ${pin.version}`, waitMs, signal, say },
    async () => {
      const meanwhile = look();
      if (meanwhile.found) return { ...meanwhile.found, fetched: false };
      const work = `${target}.setup`;
      await mkdir(work, { recursive: true });
      const wheel = await obtainWheel(pin, python, work, { env, signal, say });
      await unpack(pin, wheel, join(work, 'unpacked'), { signal }).catch((error) => {
        throw error.code === 'ENOSPC' ? diskFilled(target, error) : error;
      });
      await publish(join(work, 'unpacked'), target, work);
      return { ...look().found, fetched: true };
    },
  );
}

/** Writes down a Python TensorFlow that may be used instead of a download; says whether there is one. */
async function adoptPython(pin, python, { env, signal, say }) {
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
  say(`using TensorFlow ${installed.version} of ${python.executable}`);
  return true;
}

/** A verified wheel: the one that an earlier, interrupted set-up left, or one that pip downloads. */
async function obtainWheel(pin, python, work, { env, signal, say }) {
  const wheel = join(work, pin.wheel.file);
  for (const name of await readdir(work)) {
    if (name !== pin.wheel.file) await rm(join(work, name), { recursive: true, force: true });
  }
  const kept = existsSync(wheel) && (await sha256Of(wheel, { signal })) === pin.wheel.sha256;
  if (!kept) await rm(wheel, { force: true });
  await checkCacheSpace(pin, kept, env);
  if (kept) {
    say('going on with the wheel that an earlier set-up downloaded');
    return wheel;
  }
  await download(pin, python, join(work, `pip-${process.pid}`), wheel, { env, signal });
  return wheel;
}

async function download(pin, python, dir, wheel, { env, signal }) {
  await mkdir(dir, { recursive: true });
  const progress = startProgress({ label: `downloading TensorFlow ${pin.version}`, total: pin.wheel.size });
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
          '3',
          '--dest',
          dir,
        ],
        ...['--platform', pin.pip.platform, '--python-version', pin.pip.python],
        ...['--implementation', 'cp', '--abi', pin.pip.abi, `${pin.package}==${pin.version}`],
      ],
      // pip downloads into its temporary folder first: there, what it has so far can be seen, and is swept.
      { what: `downloading TensorFlow ${pin.version}`, env: { ...env, TMPDIR: dir }, signal },
    );
    done = true;
  } finally {
    clearInterval(watch);
    progress.end(done);
    if (!done) await rm(dir, { recursive: true, force: true });
  }
  const file = join(dir, pin.wheel.file);
  const actual = existsSync(file) ? await sha256Of(file, { signal }) : 'nothing by that name';
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
      const entry = entries.find(({ name }) => name === `tensorflow/${library.file}`);
      const actual =
        entry && (await extractEntry(wheel, entry, join(dir, library.file), { signal, onBytes }));
      if (actual !== library.sha256) throw wrongHash(library, actual ?? 'nothing by that name');
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

/** A damaged install folder is moved aside first: a process that has its libraries mapped keeps them. */
async function publish(unpacked, target, work) {
  if (existsSync(target)) await rename(target, join(work, 'replaced'));
  await rename(unpacked, target);
  await rm(work, { recursive: true, force: true });
}

/** The bytes that have to be free in the cache for a set-up. */
export function spaceNeeded(pin, haveWheel = false) {
  const libraries = pin.libraries.cc.size + pin.libraries.framework.size;
  // pip copies the wheel out of its temporary folder, so for a moment there are two.
  return haveWheel ? libraries : Math.max(2 * pin.wheel.size, pin.wheel.size + libraries);
}

async function checkCacheSpace(pin, haveWheel, env) {
  const hint = 'Free some space, or set SHOAL_CACHE to a folder on a larger disk.';
  await checkSpace(`setting TensorFlow ${pin.version} up`, cacheDir(env), spaceNeeded(pin, haveWheel), {
    hint,
  });
}

/** The space was checked, but others write to the same disk. */
function diskFilled(target, cause) {
  return new SetupError('SHOAL_NO_SPACE', 'full-disk', `the disk became full while ${target} was written`, {
    hint: 'Free some space, or set SHOAL_CACHE to a folder on a larger disk.',
    cause,
  });
}

/** What lies in a folder; files that vanish while it is counted do not matter, this is for display. */
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
      hint: 'Run set-up again. If it stays so, a mirror or a local PIP_FIND_LINKS folder serves another file under this name.',
    },
  );
}

function notThere(searched) {
  const places = searched.map(({ place, why }) => `\n  - ${place}: ${why}`).join('');
  return new SetupError(
    'SHOAL_LIBRARY',
    'not-found',
    `SHOAL_TF_DIR does not lead to TensorFlow's libraries:${places}`,
    {
      hint: 'Point SHOAL_TF_DIR at the folder that holds both libraries, or unset it.',
    },
  );
}
