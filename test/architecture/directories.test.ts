/** The directories beside src/: what they import, and how large files and directories are. */
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { findCycles } from './cycles.js';
import { filesIn, isForTests, isGenerated, parseFiles } from './sources.js';

/**
 * What the programs of each directory import from others. The package contains scripts/setup, because `shoal setup` is the
 * set-up of a clone too; it runs before anything is installed.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  src: ['scripts/setup'],
  examples: [],
  codegen: ['src'],
  bench: ['src', 'dist', 'examples', 'scripts/setup'],
  lab: ['src', 'examples', 'scripts/dev', 'scripts/setup', 'test/python.ts'],
  test: ['src', 'dist', 'examples', 'codegen', 'bench', 'scripts/dev', 'scripts/setup'],
  'scripts/bootstrap.mjs': ['scripts/dev', 'scripts/setup'],
  'scripts/dev': ['scripts/setup'],
  'scripts/setup': [],
  'scripts/runtime': [],
};
/** What tests and test helpers import in addition, wherever they are. */
const TESTS_MAY_IMPORT = ['src', 'test', 'examples'];

const LONGEST_FILE = 500;
const LARGEST_DIRECTORY = 25;

const paths = ['src', 'examples', 'codegen', 'bench', 'lab', 'test', 'scripts']
  .flatMap((directory) => filesIn(directory))
  .filter((path) => /\.(ts|mjs|py|sh)$/.test(path) && !path.includes('/node_modules/'));
const files = parseFiles(paths);

const areaOf = (path: string): string =>
  Object.keys(MAY_IMPORT).find((area) => path === area || path.startsWith(`${area}/`)) ?? path;

test('each directory imports only what it may', () => {
  const wrong = files.flatMap(({ path, imports }) => {
    const own = areaOf(path);
    const allowed = [own, ...(MAY_IMPORT[own] ?? []), ...(isForTests(path) ? TESTS_MAY_IMPORT : [])];
    return imports
      .filter(({ file }) => file !== undefined)
      .filter(({ file = '' }) => !allowed.some((area) => file === area || file.startsWith(`${area}/`)))
      .map(({ specifier }) => `${path} imports ${specifier}`);
  });
  expect(wrong).toEqual([]);
});

test('examples import the package as its users do', () => {
  const foreign = files
    .filter(({ path }) => areaOf(path) === 'examples')
    .flatMap(({ path, imports }) => imports.map(({ specifier }) => ({ path, specifier })))
    .filter(({ specifier }) => !/^(\.|node:|shoal(\/|$)|mnist$)/.test(specifier));
  expect(foreign).toEqual([]);
});

test('what runs before the installation imports only Node', () => {
  const packages = files
    .filter(({ path }) => /^scripts\/(setup|runtime)\//.test(path) && !isForTests(path))
    .flatMap(({ path, imports }) => imports.map(({ specifier }) => `${path}: ${specifier}`))
    .filter((line) => !/: (node:|\.)/.test(line));
  expect(packages).toEqual([]);
});

test('imports form no cycles, types included', () => {
  const outside = files.filter(({ path }) => !path.startsWith('src/'));
  expect(findCycles(outside).map((cycle) => cycle.join(' → '))).toEqual([]);
});

test(`files have at most ${LONGEST_FILE} lines`, () => {
  const long = files.filter(({ path, lines }) => !isGenerated(path) && lines > LONGEST_FILE);
  expect(long.map(({ path, lines }) => `${path}: ${lines}`)).toEqual([]);
});

test(`directories have at most ${LARGEST_DIRECTORY} files`, () => {
  const counts = new Map<string, number>();
  for (const path of paths) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  const isExempt = (directory: string) =>
    /(^|\/)generated$|^src\/tensorflow\/gradients\/ops$/.test(directory);
  const large = [...counts].filter(([directory, count]) => count > LARGEST_DIRECTORY && !isExempt(directory));
  expect(large.map(([directory, count]) => `${directory}: ${count}`)).toEqual([]);
});
