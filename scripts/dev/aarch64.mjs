/**
 * `npm run smoke:aarch64`: runs the built package in two processes with an aarch64 Node and the aarch64 TensorFlow. On
 * x86_64 Linux both run under emulation, on aarch64 Linux natively. `--native` runs the same checks without emulation
 * on any Linux machine, to distinguish a fault of the emulation from one of Shoal. The output ends with the
 * line `N passed, N failed`.
 */
import { copyFile, cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeError, exitCodeOf, SetupError } from '../setup/errors.mjs';
import { fetchTensorFlow } from '../setup/fetch.mjs';
import { cacheDir } from '../setup/locate.mjs';
import { interruptible, run } from '../setup/processes.mjs';
import { seconds } from '../setup/progress.mjs';
import { aarch64Parts, runConcurrently } from './aarch64-parts.mjs';
import { runChecks } from './aarch64-run.mjs';
import { ensurePackages } from './install.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
/** Emulation is about twenty times slower, and the machine may be busy. */
const DEADLINE_MS = 420_000;

async function main({ native }) {
  const started = Date.now();
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) {
    throw new SetupError(
      'SHOAL_UNSUPPORTED',
      'unknown-platform',
      `the aarch64 smoke test cannot run on ${process.platform}-${process.arch}`,
      { hint: 'Run it on Linux, x86_64 or aarch64.' },
    );
  }
  const arch = native ? process.arch : 'arm64';
  const emulated = arch !== process.arch;
  return await interruptible(async (signal) => {
    const options = { env: fetchEnvironment(), log };
    await ensurePackages(ROOT, { ...options, signal });
    const scratch = await mkdtemp(join(tmpdir(), 'shoal-aarch64-'));
    try {
      const parts = emulated ? aarch64Parts : async () => ({ node: [process.execPath], packages: ROOT });
      const [{ node, packages }] = await runConcurrently(signal, [
        (either) => parts(ROOT, { ...options, signal: either }),
        (either) => fetchTensorFlow({ ...options, signal: either, platform: `linux-${arch}` }),
        (either) => stage(join(scratch, 'shoal'), { signal: either }),
      ]);
      await symlink(join(packages, 'node_modules'), join(scratch, 'node_modules'));
      log(`ready to run on ${arch}${emulated ? ', emulated' : ''} (${seconds(Date.now() - started)})`);
      const program = (name, ...args) => [...node, join(scratch, 'shoal/test/aarch64', name), ...args];
      const { passed, failed } = await runChecks({
        ps: program('ps.mjs'),
        worker: program('worker.mjs', arch),
        cwd: scratch,
        env: runEnvironment(),
        deadlineMs: DEADLINE_MS,
        signal,
      });
      log(`done (${seconds(Date.now() - started)})`);
      process.stdout.write(`${passed} passed, ${failed} failed\n`);
      return failed === 0 && passed > 0 ? 0 : 1;
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  });
}

/**
 * Builds the package without type checks, together with the programs of this test, which import its modules.
 */
async function stage(dir, { signal }) {
  await mkdir(dir);
  for (const file of ['package.json', 'tensorflow.lock.json']) {
    await copyFile(join(ROOT, file), join(dir, file));
  }
  for (const folder of ['scripts/setup', 'test/aarch64']) {
    await cp(join(ROOT, folder), join(dir, folder), { recursive: true });
  }
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
  const settings = ['--noCheck', '--declaration', 'false', '--outDir', join(dir, 'dist')];
  const args = [compiler, '-p', join(ROOT, 'tsconfig.build.json'), ...settings];
  const { code, output } = await run(process.execPath, args, { signal });
  if (code === 0) return;
  throw new SetupError('SHOAL_INTERNAL', 'build-failed', `building the package failed:\n${output.trim()}`);
}

/** Only the cache is used: a library that the environment names is for this machine's own architecture. */
function fetchEnvironment() {
  const { SHOAL_TF_DIR: _, ...env } = process.env;
  return { ...env, SHOAL_TF: 'cache' };
}

/** The programs find the library as any program does: the package searches the cache. */
function runEnvironment() {
  const { PATH, HOME, TMPDIR, SHOAL_TF_LOG } = process.env;
  const kept = Object.entries({ PATH, HOME, TMPDIR, SHOAL_TF_LOG }).filter(
    ([, value]) => value !== undefined,
  );
  return {
    ...Object.fromEntries(kept),
    SHOAL_CACHE: cacheDir(),
    SHOAL_TF: 'cache',
    UV_THREADPOOL_SIZE: '8',
  };
}

function log(line) {
  process.stderr.write(`shoal: ${line}\n`);
}

try {
  const { values } = parseArgs({ options: { native: { type: 'boolean', default: false } } });
  process.exitCode = await main(values);
} catch (error) {
  process.stderr.write(`${describeError(error)}\n`);
  process.exitCode = exitCodeOf(error);
}
