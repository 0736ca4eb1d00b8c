/**
 * Installs the npm packages when they differ from package-lock.json. npm records what it installed in
 * node_modules/.package-lock.json; comparing the two takes milliseconds.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from '../setup/errors.mjs';
import { cacheDir } from '../setup/locate.mjs';
import { withLock } from '../setup/lock-file.mjs';
import { run } from '../setup/processes.mjs';
import { seconds } from '../setup/progress.mjs';

export async function ensurePackages(root, { env = process.env, signal, waitMs, log = () => {} } = {}) {
  if (packagesAreCurrent(root)) return;
  const name = createHash('sha256').update(root).digest('hex').slice(0, 12);
  const lock = join(cacheDir(env), `packages-${name}.lock`);
  await withLock(lock, { what: 'npm packages', waitMs, signal, log }, async () => {
    if (packagesAreCurrent(root)) return;
    const started = Date.now();
    log('installing npm packages');
    const npm = (...args) => runNpm(root, args, { env, signal });
    let result = await npm('ci');
    // `npm ci` refuses a lock file that does not list the binaries of every platform, which happens if the registry
    // lacked some of them when it was written. `npm install` uses the same lock file and accepts that.
    if (result.code !== 0 && /\bEUSAGE\b/.test(result.output)) result = await npm('install', '--no-save');
    if (result.missing) {
      throw new SetupError('SHOAL_UNSUPPORTED', 'no-npm', 'npm is not on the PATH', {
        hint: 'Install npm; it usually comes with Node.',
      });
    }
    if (result.code !== 0) {
      const output = result.output.trim();
      throw new SetupError(
        'SHOAL_UNREACHABLE',
        'npm-failed',
        `npm failed (exit ${result.code}):\n${output}`,
        {
          hint: 'Check the network and npm’s settings (`npm config list`), then run this again.',
        },
      );
    }
    log(`npm packages installed (${seconds(Date.now() - started)})`);
  });
}

export async function runNpm(root, args, { env, signal }) {
  const [command, ...first] = env.npm_execpath ? [process.execPath, env.npm_execpath] : ['npm'];
  const all = [...first, ...args, '--no-audit', '--no-fund'];
  return await run(command, all, { cwd: root, env: npmEnvironment(env), signal });
}

/** Whether every package of the lock file is installed in the locked version. */
export function packagesAreCurrent(root) {
  const wanted = readPackages(join(root, 'package-lock.json'));
  const installed = readPackages(join(root, 'node_modules', '.package-lock.json'));
  if (wanted === undefined || installed === undefined) return false;
  return Object.entries(wanted).every(([path, { version, optional }]) => {
    // Optional packages are mostly the binaries of other platforms; installed ones must still match.
    if (path === '' || (optional && !installed[path])) return true;
    return installed[path]?.version === version;
  });
}

function readPackages(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** An npm started by another npm would inherit its settings: removes those of the outer run. */
function npmEnvironment(env) {
  const drop = /^npm_(?:lifecycle|package|command|config_(?:argv|prefix|local_prefix|global))/;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !drop.test(name)));
}
