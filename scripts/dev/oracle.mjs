/**
 * The oracle: a Python environment with the TensorFlow that tests compare Shoal with. It is in the per-user cache,
 * named by the hash of its requirements, so that checkouts share it and changed requirements get another one.
 *
 * The stamp is written last: an environment without one was interrupted, and is created again.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkSpace } from '../setup/disk-space.mjs';
import { SetupError } from '../setup/errors.mjs';
import { cacheDir, platformKey } from '../setup/locate.mjs';
import { withLock } from '../setup/lock-file.mjs';
import { run } from '../setup/processes.mjs';
import { seconds } from '../setup/progress.mjs';
import { findPython, pip } from '../setup/python.mjs';

const REQUIREMENTS = fileURLToPath(new URL('./oracle-requirements.txt', import.meta.url));
/** The environment, and the temporary files of pip. */
const SPACE_NEEDED = 3e9;

/** Returns the Python of the oracle, and creates it if necessary. SHOAL_ORACLE_PYTHON names an existing one. */
export async function ensureOracle({ env = process.env, signal, waitMs, log = () => {} } = {}) {
  if (env.SHOAL_ORACLE_PYTHON) return await checkGiven(env.SHOAL_ORACLE_PYTHON, { env, signal });
  const hash = createHash('sha256')
    .update(await readFile(REQUIREMENTS))
    .digest('hex')
    .slice(0, 12);
  const dir = join(cacheDir(env), `oracle-${hash}-${platformKey()}`);
  const python = join(dir, 'bin', 'python');
  const stamp = join(dir, 'shoal-oracle.json');
  const ready = () => existsSync(stamp) && existsSync(python);
  if (ready()) return python;
  return await withLock(`${dir}.lock`, { what: 'the test oracle', waitMs, signal, log }, async () => {
    if (!ready()) await create(dir, python, stamp, { env, signal, log });
    return python;
  });
}

/** Looks for the package without importing it, because an import takes seconds. */
async function checkGiven(python, { env, signal }) {
  const program = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("tensorflow") is None)';
  const { code, missing } = await run(python, ['-c', program], { env, signal });
  if (code === 0) return python;
  throw new SetupError(
    'SHOAL_NOT_FOUND',
    'oracle-unusable',
    `SHOAL_ORACLE_PYTHON is ${python}, which ${missing ? 'is not a program' : 'has no TensorFlow'}`,
    {
      hint: 'Set it to a Python that has TensorFlow, or unset it: the test oracle is then created in the cache.',
    },
  );
}

async function create(dir, python, stamp, { env, signal, log }) {
  const started = Date.now();
  const base = await findPython({ env, signal });
  checkVersion(base);
  log(`creating the test oracle (Python ${base.version} with TensorFlow, about 2 GB) in ${dir}`);
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true });
  const hint = 'Free some space, or set SHOAL_CACHE to a folder on a larger disk.';
  await checkSpace('the test oracle', dir, SPACE_NEEDED, { hint });
  const { code, output } = await run(base.executable, ['-m', 'venv', dir], { env, signal });
  if (code !== 0) {
    throw new SetupError(
      'SHOAL_UNSUPPORTED',
      'no-venv',
      `${base.executable} cannot create a virtual environment:\n${output}`,
      {
        hint: 'Debian, Ubuntu: apt-get install python3-venv. Or set SHOAL_ORACLE_PYTHON to a Python with TensorFlow.',
      },
    );
  }
  const what = 'installing the test oracle';
  const args = [
    'install',
    '--quiet',
    '--no-cache-dir',
    '--no-deps',
    '--only-binary=:all:',
    '-r',
    REQUIREMENTS,
  ];
  const reminder = setInterval(() => log(`${what}: ${seconds(Date.now() - started)} so far`), 10_000);
  try {
    await pip({ executable: python }, args, { what, env, signal });
  } finally {
    clearInterval(reminder);
  }
  // The first import also compiles the modules, once instead of in several concurrent tests.
  const tried = await run(python, ['-c', 'import tensorflow, tensorboard'], { env, signal });
  if (tried.code !== 0) {
    throw new SetupError(
      'SHOAL_LIBRARY',
      'oracle-unusable',
      `the test oracle cannot import TensorFlow and TensorBoard:\n${tried.output.trim()}`,
      {
        hint: 'Set SHOAL_PYTHON to another Python, or SHOAL_ORACLE_PYTHON to one that has TensorFlow.',
      },
    );
  }
  await writeFile(stamp, JSON.stringify({ python: base.version, made: new Date().toISOString() }));
  log(`the test oracle is ready (${seconds(Date.now() - started)})`);
}

function checkVersion({ executable, version }) {
  const minor = Number(version.split('.')[1]);
  if (minor >= 11 && minor <= 13) return;
  throw new SetupError(
    'SHOAL_UNSUPPORTED',
    'oracle-python',
    `${executable} is Python ${version}; the test oracle needs 3.11, 3.12 or 3.13`,
    { hint: 'Set SHOAL_PYTHON to such a Python, or SHOAL_ORACLE_PYTHON to one that has TensorFlow already.' },
  );
}
