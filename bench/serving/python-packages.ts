/**
 * The Python packages of the benchmark, in a directory of their own in the cache: the oracle's Python finds them by
 * PYTHONPATH, and its environment stays as it is.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheDir, platformKey } from '../../scripts/setup/locate.mjs';
import { oraclePython } from '../harness.js';

const REQUIREMENTS = fileURLToPath(new URL('./requirements.txt', import.meta.url));

/** Installs the packages if they are missing, and returns their directory. */
export function pythonPackages(): string {
  const python = oraclePython();
  const hash = createHash('sha256').update(readFileSync(REQUIREMENTS)).update(python).digest('hex');
  const directory = join(cacheDir(), `bench-serving-${hash.slice(0, 12)}-${platformKey()}`);
  if (existsSync(directory)) return directory;
  mkdirSync(cacheDir(), { recursive: true });
  const unfinished = mkdtempSync(`${directory}-`);
  const options = ['--quiet', '--no-deps', '--only-binary=:all:', '--target', unfinished];
  const args = ['-m', 'pip', '--disable-pip-version-check', 'install', ...options, '-r', REQUIREMENTS];
  const { status, stderr } = spawnSync(python, args, { encoding: 'utf8' });
  if (status !== 0) {
    rmSync(unfinished, { recursive: true, force: true });
    throw new Error(`the Python packages of the benchmark could not be installed:\n${stderr}`);
  }
  // Another process may have been faster.
  if (existsSync(directory)) rmSync(unfinished, { recursive: true, force: true });
  else renameSync(unfinished, directory);
  return directory;
}
