/**
 * The programs that tests run as processes, bundled. Without an argument it makes the bundle if it is missing or older
 * than a source.
 */
import { readdirSync, statSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withLock } from '../setup/lock-file.mjs';
import { bundlePrograms } from './program-bundle.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
const DIST = join(ROOT, 'dist');
const BUNDLE = join(DIST, 'test-programs');
/** Written last: a bundle without it is not complete. */
const STAMP = 'complete';

/** Directories whose files are all programs, or parts of programs that load each other by name. */
const DIRECTORIES = ['test/cluster/programs'];
const FILES = [
  'src/distributed/cluster/testing/task-process.ts',
  'test/checkpoint/snapshot-task.ts',
  'test/checkpoint/task.ts',
  'test/saved-model/cluster-task.ts',
];
const SOURCES = ['src', 'test'];

/** The bundled file of a program, by its source in the checkout. */
export function bundledProgram(source) {
  if (!programs().includes(source))
    throw new Error(`${source} is not among the programs of ${import.meta.url}`);
  return join(BUNDLE, `${source.replace(/\.ts$/, '')}.js`);
}

/** Whether the bundle is complete, and no source is newer. */
export function programsAreCurrent() {
  const made = statSync(join(BUNDLE, STAMP), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return SOURCES.every((directory) =>
    readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' }).every(
      (file) =>
        !file.endsWith('.ts') ||
        file.endsWith('.test.ts') ||
        statSync(join(ROOT, directory, file)).mtimeMs <= made,
    ),
  );
}

const programs = () => [
  ...FILES,
  ...DIRECTORIES.flatMap((directory) =>
    readdirSync(join(ROOT, directory))
      .filter((file) => file.endsWith('.ts'))
      .map((file) => `${directory}/${file}`),
  ),
];

async function makeBundle() {
  const started = new Date();
  const staging = `${BUNDLE}-${process.pid}`;
  const entries = programs().map((source) => ({ out: source.replace(/\.ts$/, ''), in: source }));
  await mkdir(staging, { recursive: true });
  try {
    await bundlePrograms(ROOT, entries, staging);
    await writeFile(join(staging, STAMP), `${started.toISOString()}\n`);
    await rm(BUNDLE, { recursive: true, force: true });
    await rename(staging, BUNDLE);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await withLock(join(DIST, 'test-programs.lock'), { what: 'bundle of the test programs' }, async () => {
    if (!programsAreCurrent()) await makeBundle();
  });
}
