/** The pages of the documentation: their code is that of files which tests execute, their commands and links exist. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { generateDocs, includedCode, writtenPages } from '../../codegen/docs.js';
import { differences } from '../../codegen/output.js';
import { ROOT } from '../setup/run-setup.js';
import { snippets } from '../snippets.js';
import { complaints, documentedCommands, mentionedCommands } from './commands.js';
import { EXECUTED } from './executed.js';
import { relativeLinks } from './links.js';
import { unusedRules } from './page-commands.js';

/** Blocks that show no file: the test that executes them reads them from the page. */
const EXECUTED_FROM_PAGE: Readonly<Record<string, number>> = {
  // codegen/migration.test.ts
  'docs/migration.md': 1,
};

test('the code blocks are those of the files that they name', () => {
  // `npm run codegen -- docs` updates them.
  expect(differences(ROOT, generateDocs())).toEqual([]);
});

test.each(writtenPages())('every TypeScript block of %s is executed by a test', (page) => {
  const shown = includedCode().filter((one) => one.page === page && one.file.endsWith('.ts'));
  expect(snippets(page, 'ts')).toHaveLength(shown.length + (EXECUTED_FROM_PAGE[page] ?? 0));
  for (const { file } of shown) expect(EXECUTED).toContain(file);
});

test('the command line accepts every command of the documentation', async () => {
  const commands = documentedCommands();
  expect(commands.length).toBeGreaterThan(60);
  const wrong: string[] = [];
  for (const { place, args } of commands) {
    const why = await complaints(args);
    if (why !== '') wrong.push(`${place}: shoal ${args.join(' ')}: ${why}`);
  }
  expect(wrong).toEqual([]);
});

test('the command line knows every command and flag that the text mentions', async () => {
  const wrong: string[] = [];
  for (const { place, args } of mentionedCommands()) {
    const why = await complaints(args);
    // Alternatives such as ls|inspect, and arguments that the text omits.
    const isIncomplete =
      /: Expected (argument|input for (flag|argument))|No command registered for `\w+\|/.test(why);
    if (why !== '' && !isIncomplete) wrong.push(`${place}: shoal ${args.join(' ')}: ${why}`);
  }
  expect(wrong).toEqual([]);
});

test('fresh-clone.test.ts leaves out and changes only commands that a page has', () => {
  expect(unusedRules().map(({ match, why }) => `${match}: ${why}`)).toEqual([]);
});

test('the examples are JavaScript of Node 20 once their types are removed', () => {
  const examples = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' });
  const programs = examples.filter((path) => path.endsWith('.ts')).map((path) => `examples/${path}`);
  const using = [...programs, ...writtenPages().filter((page) => snippets(page, 'ts').length > 0)].filter(
    (path) => /^\s*(await )?using \w+ =/m.test(readFileSync(join(ROOT, path), 'utf8')),
  );
  expect(programs.length).toBeGreaterThan(20);
  expect(using).toEqual([]);
});

test.each([
  ['an unknown command', ['rnu', 'job.ts']],
  ['an unknown flag', ['run', 'job.ts', '--worker', '3']],
  ['a missing argument', ['checkpoint', 'pull', 'latest']],
  ['an invalid value', ['run', 'job.ts', '--ps', 'two']],
])('%s would be found', async (_, args) => {
  expect(await complaints(args)).not.toBe('');
});

const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

test.each(writtenPages())('the links of %s lead to files and headings that exist', (page) => {
  const missing = relativeLinks(readFileSync(join(ROOT, page), 'utf8')).filter((target) => {
    const [path = '', anchor] = target.split('#');
    const file = path === '' ? join(ROOT, page) : join(ROOT, dirname(page), path);
    if (!existsSync(file)) return true;
    if (anchor === undefined) return false;
    const headings = [...readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm)].map(
      ([, heading]) => heading as string,
    );
    return !headings.some((heading) => anchorOf(heading) === anchor);
  });
  expect(missing).toEqual([]);
});
