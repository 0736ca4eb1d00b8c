/**
 * The entry point from a fresh clone: `node scripts/bootstrap.mjs start|quickstart|test|bench|lab|codegen|long|setup
 * [...args]`. It needs Node, and Python 3 with pip. It installs the npm packages and TensorFlow if they are missing,
 * then runs the command. The check for what is installed takes a few milliseconds.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ensurePackages } from './dev/install.mjs';
import { ensureOracle } from './dev/oracle.mjs';
import { ensureSourceBundle } from './dev/source-bundle.mjs';
import { selectTests } from './dev/test-selection.mjs';
import { summarize } from './dev/test-summary.mjs';
import { describeError, exitCodeOf, SetupError } from './setup/errors.mjs';
import { fetchTensorFlow } from './setup/fetch.mjs';
import { interruptible, runAttached } from './setup/processes.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');
const MIN_NODE = [20, 19];
/** Blocking calls into TensorFlow occupy threads of libuv's pool; its default of four is too small. */
const THREAD_POOL = '64';

const SCRIPTS = {
  start: { file: 'examples/main-job.ts', oracle: false },
  quickstart: { file: 'examples/quickstart.ts', oracle: false },
  bench: { file: 'bench/main.ts', oracle: true },
  // An experiment that needs the oracle sets it up itself.
  lab: { file: 'lab/main.ts', oracle: false },
  codegen: { file: 'codegen/main.ts', oracle: true },
  long: { file: 'test/long/main.ts', oracle: false },
};

async function main([command, ...args]) {
  checkNode();
  if (command === 'test') return await test(args);
  if (command === 'setup') {
    await prepare({ oracle: args.includes('--oracle') });
    await interruptible((signal) => ensureSourceBundle(ROOT, { signal }));
    return 0;
  }
  const script = SCRIPTS[command];
  if (!script) {
    throw new SetupError(
      'SHOAL_INVALID_ARGUMENT',
      'usage',
      `unknown command ${JSON.stringify(command ?? '')}`,
      {
        hint: 'node scripts/bootstrap.mjs start|quickstart|test|bench|lab|codegen|long|setup [...args]',
      },
    );
  }
  const environment = await prepare({ oracle: script.oracle });
  await interruptible((signal) => ensureSourceBundle(ROOT, { signal }));
  const file = join(ROOT, script.file);
  if (!existsSync(file))
    throw new SetupError('SHOAL_NOT_FOUND', 'no-script', `this checkout has no ${script.file}`);
  const loader = pathToFileURL(join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href;
  return await runAttached(process.execPath, ['--import', loader, file, ...args], {
    env: environment,
  });
}

/** Installs what a run needs and returns its environment. */
async function prepare({ oracle }) {
  const log = (line) => process.stderr.write(`shoal: ${line}\n`);
  return await interruptible(async (signal) => {
    await ensurePackages(ROOT, { signal, log });
    const library = await fetchTensorFlow({ signal, log });
    if (library.fetched) log(`TensorFlow ${library.version} is in ${library.dir}`);
    const python = oracle ? await ensureOracle({ signal, log }) : undefined;
    return {
      ...process.env,
      UV_THREADPOOL_SIZE: process.env.UV_THREADPOOL_SIZE || THREAD_POOL,
      ...(python ? { SHOAL_ORACLE_PYTHON: python } : {}),
    };
  });
}

async function test(args) {
  const environment = await prepare({ oracle: true });
  const scratch = mkdtempSync(join(tmpdir(), 'shoal-test-'));
  const counts = join(scratch, 'counts.json');
  try {
    const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
    const reporters = ['--reporter=default', `--reporter=${join(ROOT, 'scripts/dev/test-summary.mjs')}`];
    const code = await runAttached(process.execPath, [vitest, 'run', ...reporters, ...selectTests(args)], {
      cwd: ROOT,
      env: { ...environment, SHOAL_TEST_COUNTS: counts },
    });
    const { line } = summarize(
      existsSync(counts) ? JSON.parse(readFileSync(counts, 'utf8')) : undefined,
      code,
    );
    process.stdout.write(`${line}\n`);
    return code;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1])) return;
  throw new SetupError(
    'SHOAL_UNSUPPORTED',
    'old-node',
    `this is Node ${process.versions.node}; Shoal needs ${MIN_NODE.join('.')} or later`,
    { hint: 'Install a newer Node.' },
  );
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${describeError(error)}\n`);
  process.exitCode = exitCodeOf(error);
}
