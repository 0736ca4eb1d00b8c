/** The package as a user installs it: its types, the programs of the guide, ES modules, CommonJS, the examples. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { codeOf } from '../../codegen/docs.js';
import { GUIDE_PROGRAMS } from '../docs/executed.js';
import { relativeLinks } from '../docs/links.js';
import { ROOT } from '../setup/run-setup.js';
import { snippets } from '../snippets.js';
import { InstalledPackage } from './installed-package.js';

const { exports, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const ENTRIES = Object.keys(exports)
  .filter((path) => path !== './package.json')
  .map((path) => `shoal${path.slice(1)}`);
const MODEL = codeOf('examples/guide/model.ts');
const JOB = snippets('README.md', 'ts')[0] as string;
const IMPORT = /^import (\{.*\}) from 'shoal';$/m;

const installed = new InstalledPackage();
beforeAll(() => {
  installed.install();
  for (const file of GUIDE_PROGRAMS) installed.write(basename(file), codeOf(file));
  mkdirSync(join(installed.project, 'commonjs'));
  installed.write('commonjs/package.json', '{ "type": "commonjs" }');
  installed.write('commonjs/model.ts', inFunction(MODEL));
});
afterAll(() => installed.remove());

/** A module in a form without await at its top level, which CommonJS does not have. */
const inFunction = (code: string): string =>
  `${IMPORT.exec(code)?.[0]}\nasync function main(): Promise<void> {${code.replace(IMPORT, '')}}\nvoid main();\n`;

/** Runs a program that prints a loss in each line; the loss must decrease. */
async function expectTraining(...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await installed.node(...args);
  expect(code, stderr).toBe(0);
  const losses = stdout.trim().split('\n').map(Number);
  expect(losses).toHaveLength(10);
  expect(losses.at(-1)).toBeLessThan(losses[0] as number);
}

test.each(['es2022', 'esnext'])(
  'the programs of the guide and all entry points have no type errors in a strict project for %s',
  async (lib) => {
    const entries = ENTRIES.map((entry, index) => `export * as e${index} from '${entry}';\n`);
    installed.write('entries.ts', entries.join(''));
    const compilerOptions = { strict: true, module: 'nodenext', noEmit: true, lib: [lib] };
    installed.write('tsconfig.json', JSON.stringify({ compilerOptions }));
    expect(await installed.typeCheck()).toBe('');
  },
);

test.each(ENTRIES)('the types of %s include those of Node', (entry) => {
  const { types } = exports[entry.replace('shoal', '.')];
  const text = readFileSync(join(installed.project, 'node_modules/shoal', types), 'utf8');
  expect(text).toMatch(/^\/\/\/ <reference types="node" /m);
});

test('the links of every shipped page lead to shipped files', () => {
  const root = join(installed.project, 'node_modules/shoal');
  const pages = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.md') && !path.includes('node_modules/'),
  );
  expect(pages).toEqual(
    expect.arrayContaining(['README.md', 'docs/guide/README.md', 'docs/ports/softmax.md']),
  );
  const missing = pages.flatMap((page) =>
    relativeLinks(readFileSync(join(root, page), 'utf8'))
      .map((target) => join(dirname(page), target.split('#', 1)[0] as string))
      .filter((path) => !existsSync(join(root, path)))
      .map((path) => `${page}: ${path}`),
  );
  expect(missing).toEqual([]);
});

test('the model of the guide trains as TypeScript, as an ES module and in CommonJS', async () => {
  await expectTraining('--import', 'tsx', 'model.ts');
  await expectTraining('--import', 'tsx', 'commonjs/model.ts');
  installed.write('model.mjs', MODEL);
  await expectTraining('model.mjs');
  const required = inFunction(MODEL).replace(IMPORT, "const $1 = require('shoal');");
  installed.write('model.cjs', required.replace(': Promise<void>', ''));
  await expectTraining('model.cjs');
});

test('the job of the README trains as TypeScript, as an ES module and in CommonJS', async () => {
  const common = JOB.replace(IMPORT, "const $1 = require('shoal');").replace(
    'export default',
    'module.exports =',
  );
  for (const [file, code] of Object.entries({ 'readme.ts': JOB, 'readme.mjs': JOB, 'readme.cjs': common })) {
    installed.write(file, code);
    const run = ['run', file, '--last-step', '20', '--dir', `.shoal/${file}`];
    const { code: exit, stdout, stderr } = await installed.node('node_modules/shoal/bin/shoal.cjs', ...run);
    expect(exit, stderr).toBe(0);
    expect(stdout).toMatch(/done at step 20/);
  }
});

test('CommonJS and ES modules get the same instance of every entry point', async () => {
  const program = `
    for (const entry of ${JSON.stringify(ENTRIES)}) {
      const names = Object.keys(require(entry));
      import(entry).then((module) => {
        if (names.length === 0 || names.some((name) => module[name] !== require(entry)[name])) throw new Error(entry);
      });
    }`;
  const { code, stderr } = await installed.node('-e', program);
  expect(stderr).toBe('');
  expect(code).toBe(0);
});

test('an example of the package runs on a local cluster', async () => {
  const job = 'node_modules/shoal/examples/linear-regression/job.ts';
  const run = ['run', job, '--ps', '1', '--workers', '1', '--', '--steps', '20'];
  const { code, stdout, stderr } = await installed.node('node_modules/shoal/bin/shoal.cjs', ...run);
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/exported step \d+ to /);
  // It starts from a file of its own.
  expect(`${stdout}${stderr}`).not.toContain('the pulse thread has ended');
});

test('a project made by shoal init has no type errors and trains', async () => {
  const shoal = 'node_modules/shoal/bin/shoal.cjs';
  const made = await installed.node(shoal, 'init', 'made');
  expect(made.code, made.stderr).toBe(0);
  // npm can install it from where this one was installed: the version need not be in a registry.
  const dependenciesOf = (file: string): Record<string, string> =>
    JSON.parse(readFileSync(join(installed.project, file), 'utf8')).dependencies;
  const own = dependenciesOf('package.json').shoal;
  const expected = own?.startsWith('file:')
    ? `file:${resolve(installed.project, own.slice('file:'.length))}`
    : `^${version}`;
  expect(dependenciesOf('made/package.json')).toEqual({ shoal: expected });
  expect(await installed.typeCheck('made')).toBe('');
  const { code, stderr } = await installed.node(shoal, 'run', 'made/job.ts');
  expect(code, stderr).toBe(0);
});

test('errors and leaks name the place in the file of the user', async () => {
  installed.write('wrong.mjs', JOB.replace(/lastStep: [\d_]+/, "lastStep: 'all'"));
  const wrong = await installed.node('node_modules/shoal/bin/shoal.cjs', 'run', 'wrong.mjs');
  expect(wrong).toMatchObject({ code: 2 });
  expect(wrong.stderr).toMatch(/\bwrong\.mjs:\d+:\d+/);
  installed.write(
    'leak.mjs',
    "import { Graph, listLiveHandles } from 'shoal';\nglobalThis.kept = new Graph();\nconsole.log(listLiveHandles().map(({ origin }) => origin));\n",
  );
  const leak = await installed.node('leak.mjs');
  expect(leak.stdout, leak.stderr).toMatch(/leak\.mjs:2:\d+/);
});
