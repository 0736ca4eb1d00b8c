/**
 * Locates TensorFlow's two libraries, for set-up, the doctor and the package alike. The search only reads files; it
 * runs no program, writes nothing, and loads nothing.
 *
 * Order: SHOAL_TF_DIR, the per-user cache, the Python installation that set-up recorded.
 * SHOAL_TF=cache or SHOAL_TF=python restricts the search to that one.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SetupError } from './errors.mjs';

const LOCK_FILE = fileURLToPath(new URL('../../tensorflow.lock.json', import.meta.url));

/** The name of this platform in the lock file. A C library other than glibc makes it another platform. */
export function platformKey() {
  const key = `${process.platform}-${process.arch}`;
  return process.platform === 'linux' && isMusl() ? `${key}-musl` : key;
}

function isMusl() {
  const arch = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
  const glibc = ['/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1'];
  return existsSync(`/lib/ld-musl-${arch}.so.1`) && !glibc.some((file) => existsSync(file));
}

export function readLock(file = LOCK_FILE) {
  return JSON.parse(readFileSync(file, 'utf8'));
}

/** The pinned wheel and libraries of one platform. */
export function pinFor(lock, platform) {
  const pin = lock.platforms[platform];
  if (pin) return { ...pin, platform, version: lock.version };
  const known = Object.keys(lock.platforms).join(', ');
  throw new SetupError(
    'SHOAL_UNSUPPORTED',
    'unknown-platform',
    `no TensorFlow ${lock.version} is pinned for the platform ${platform} (pinned platforms: ${known})`,
    {
      hint: platform.endsWith('-musl')
        ? 'TensorFlow needs glibc: use a Debian, Ubuntu or Red Hat based system or image instead of a musl one.'
        : 'Use one of these platforms, or set SHOAL_TF_DIR to a folder with libtensorflow_cc and libtensorflow_framework.',
    },
  );
}

/** The per-user cache that all checkouts share. */
export function cacheDir(env = process.env) {
  if (env.SHOAL_CACHE) return resolve(env.SHOAL_CACHE);
  if (env.XDG_CACHE_HOME) return resolve(env.XDG_CACHE_HOME, 'shoal');
  return process.platform === 'darwin'
    ? join(homedir(), 'Library/Caches/shoal')
    : join(homedir(), '.cache/shoal');
}

/** The folder of one pinned TensorFlow inside the cache. */
export function installDir(pin, env = process.env) {
  return join(cacheDir(env), `tensorflow-${pin.version}-${pin.platform}`);
}

/** The folder of the pinned checksum library inside the cache. */
export function crc32cDir(pin, env = process.env) {
  return join(cacheDir(env), `crc32c-${pin.crc32c.version}-${pin.platform}`);
}

/**
 * The checksum library of the platform, if set-up has installed it. It is optional. It is small, so its hash is compared:
 * a damaged library could crash the process.
 * @returns {string | undefined}
 */
export function crc32cLibrary({ env = process.env, lock = readLock(), platform = platformKey() } = {}) {
  if (!lock.platforms[platform]?.crc32c) return undefined;
  const pin = pinFor(lock, platform);
  const { file, size, sha256 } = pin.crc32c.library;
  const path = join(crc32cDir(pin, env), file);
  if (sizeOf(path) !== size) return undefined;
  return createHash('sha256').update(readFileSync(path)).digest('hex') === sha256 ? path : undefined;
}

/** The file in which set-up records a Python installation whose libraries can be used. */
export function pythonRecordFile(pin, env = process.env) {
  return join(cacheDir(env), `python-tensorflow-${pin.platform}.json`);
}

/**
 * Searches all places.
 * @returns {{ found?: { dir: string, ccPath: string, frameworkPath: string, source: string, version?: string },
 *   searched: { place: string, found: boolean, why: string }[], pin: object }}
 */
export function search({ env = process.env, lock = readLock(), platform = platformKey() } = {}) {
  const searched = [];
  const wanted = env.SHOAL_TF || undefined;
  if (wanted !== undefined && wanted !== 'python' && wanted !== 'cache') {
    throw new SetupError('SHOAL_CONFIG', 'bad-setting', `SHOAL_TF is ${JSON.stringify(wanted)}`, {
      hint: 'Set SHOAL_TF to "python" or "cache", or unset it.',
    });
  }
  const pin = lock.platforms[platform] ? pinFor(lock, platform) : undefined;
  const names = libraryNames(pin);

  if (env.SHOAL_TF_DIR) {
    // If the named folder has no libraries, that is an error: another library is never used silently.
    const found = lookInDir(env.SHOAL_TF_DIR, names, pin, searched);
    return { found, searched, pin };
  }
  searched.push({ place: 'SHOAL_TF_DIR', found: false, why: 'not set' });
  if (pin === undefined) pinFor(lock, platform);

  const steps = {
    cache: () => lookInCache(pin, env, searched),
    python: () => lookInRecord(pin, env, searched, wanted),
  };
  for (const [source, step] of Object.entries(steps)) {
    if (wanted !== undefined && wanted !== source) {
      searched.push({ place: source, found: false, why: `skipped, SHOAL_TF is ${wanted}` });
      continue;
    }
    const found = step();
    if (found) return { found, searched, pin };
  }
  return { found: undefined, searched, pin };
}

function libraryNames(pin) {
  if (pin) return { cc: pin.libraries.cc.file, framework: pin.libraries.framework.file };
  return process.platform === 'darwin'
    ? { cc: 'libtensorflow_cc.2.dylib', framework: 'libtensorflow_framework.2.dylib' }
    : { cc: 'libtensorflow_cc.so.2', framework: 'libtensorflow_framework.so.2' };
}

function lookInDir(given, names, pin, searched) {
  for (const dir of [resolve(given), resolve(given, 'tensorflow')]) {
    const missing = missingLibraries(dir, names);
    searched.push({ place: `SHOAL_TF_DIR ${dir}`, found: missing === '', why: missing });
    if (missing === '') return place('SHOAL_TF_DIR', dir, names, versionOf(dir, pin));
  }
  return undefined;
}

function lookInCache(pin, env, searched) {
  const dir = installDir(pin, env);
  const names = libraryNames(pin);
  const why = missingLibraries(dir, names) || wrongSize(dir, pin);
  searched.push({ place: `cache ${dir}`, found: why === '', why });
  return why === '' ? place('cache', dir, names, pin.version) : undefined;
}

function lookInRecord(pin, env, searched, wanted) {
  const file = pythonRecordFile(pin, env);
  const record = readRecord(file);
  if (record === undefined) {
    searched.push({
      place: 'python',
      found: false,
      why: `set-up has recorded no Python TensorFlow (${file})`,
    });
    return undefined;
  }
  const names = libraryNames(pin);
  const other = wanted !== 'python' && record.version !== pin.version;
  const why =
    missingLibraries(record.dir, names) ||
    (other ? `version ${record.version}, the pinned one is ${pin.version}` : '');
  searched.push({ place: `python ${record.dir}`, found: why === '', why });
  return why === '' ? place('python', record.dir, names, record.version) : undefined;
}

/** A record that cannot be parsed counts as missing: set-up rewrites it. */
function readRecord(file) {
  try {
    const { dir, version } = JSON.parse(readFileSync(file, 'utf8'));
    return typeof dir === 'string' && typeof version === 'string' ? { dir, version } : undefined;
  } catch {
    return undefined;
  }
}

function place(source, dir, names, version) {
  return { dir, ccPath: join(dir, names.cc), frameworkPath: join(dir, names.framework), source, version };
}

/** The missing libraries of a folder, as a phrase; empty if both exist. */
function missingLibraries(dir, names) {
  if (!existsSync(dir)) return 'the folder does not exist';
  const missing = [names.cc, names.framework].filter((name) => sizeOf(join(dir, name)) === undefined);
  return missing.length === 0 ? '' : `${missing.join(' and ')} missing`;
}

/** Compares sizes, not hashes: set-up has verified the hashes, and this runs at every start. */
function wrongSize(dir, pin) {
  for (const { file, size } of [pin.libraries.cc, pin.libraries.framework]) {
    const actual = sizeOf(join(dir, file));
    if (actual !== size) return `${file} has ${actual} bytes instead of ${size}`;
  }
  return '';
}

function sizeOf(file) {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat?.isFile() ? stat.size : undefined;
}

/** The version in a folder of the user: from the metadata of the Python package, or from the pinned sizes. */
function versionOf(dir, pin) {
  if (basename(dir) === 'tensorflow') {
    for (const entry of readdirSync(dirname(dir))) {
      const match = /^tensorflow(?:_cpu|_intel|_macos|_aarch64)?-(.+)\.dist-info$/.exec(entry);
      if (match) return match[1];
    }
  }
  return pin && wrongSize(dir, pin) === '' ? pin.version : undefined;
}
