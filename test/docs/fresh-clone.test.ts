/**
 * Runs the commands of the pages in a fresh clone, in their order, with an environment that has only PATH and HOME.
 * page-commands.ts says which commands are left out or changed, and why.
 */
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { codeOf } from '../../codegen/docs.js';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { ROOT } from '../setup/run-setup.js';
import { actionsOf, type Block, changed, isLeftOut, PREPARED, WALKS } from './page-commands.js';

const BLOCK_MS = 900_000;

let scratch: string;
let clone: string;
beforeAll(() => {
  scratch = realpathSync(mkdtempSync(join(tmpdir(), 'shoal-clone-')));
  clone = join(scratch, 'shoal');
  makeClone();
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const git = (cwd: string, ...args: string[]): string => execFileSync('git', args, { cwd, encoding: 'utf8' });

/** A clone of HEAD with the changes of the working tree, and with its own directory of the packages. */
function makeClone(): void {
  git(ROOT, 'clone', '--quiet', ROOT, clone);
  const files = git(ROOT, 'ls-files', '-z', '--modified', '--others', '--exclude-standard').split('\0');
  for (const file of new Set(files)) {
    if (file === '') continue;
    if (existsSync(join(ROOT, file))) cpSync(join(ROOT, file), join(clone, file));
    else rmSync(join(clone, file));
  }
  git(clone, 'add', '--all');
  const author = ['-c', 'user.name=test', '-c', 'user.email=test@localhost'];
  git(clone, ...author, 'commit', '--quiet', '--allow-empty', '--no-verify', '-m', 'The working tree');
  // Hard links: no command writes into a package. Its caches are files of this checkout.
  const packages = readdirSync(join(ROOT, 'node_modules')).filter(
    (name) => !/^\.(cache|vite|shoal)/.test(name),
  );
  execFileSync('mkdir', [join(clone, 'node_modules')]);
  const sources = packages.map((name) => join(ROOT, 'node_modules', name));
  try {
    execFileSync('cp', ['-al', ...sources, join(clone, 'node_modules')], { stdio: 'ignore' });
  } catch {
    execFileSync('cp', ['-a', ...sources, join(clone, 'node_modules')]);
  }
}

/** `companion` is a job that trains in another terminal. A task in the background must end well, too. */
const PRELUDE = `set -euo pipefail
companion() {
  node bin/shoal.cjs run job.ts --ps 2 --workers 3 --last-step 1000000 > companion.log 2>&1 &
  companion=$!
}
companion_ends() {
  kill -INT $companion
  wait $companion || [ $? -eq 130 ] || { cat companion.log; return 1; }
}
`;
const WAIT = 'for task in $(jobs -p); do wait $task; done\n';

/** Runs lines of a shell, all of which must succeed; returns their output. */
async function run(commands: readonly string[]): Promise<string> {
  const { PATH, HOME, SHOAL_CACHE } = process.env;
  const lines = commands.map((command) => `echo ${quoted(`$ ${command}`)}\n${command}\n`);
  const child = spawn('bash', ['--norc', '-c', `${PRELUDE}${lines.join('')}${WAIT}`], {
    cwd: clone,
    env: { PATH, HOME, ...(SHOAL_CACHE && { SHOAL_CACHE }) },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own, which ends as a whole.
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const deadline = setTimeout(() => {
    output += `\nstopped after ${BLOCK_MS} ms\n`;
    endGroup(child.pid as number);
  }, BLOCK_MS);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  clearTimeout(deadline);
  if (code !== 0) endGroup(child.pid as number);
  expect(code, output).toBe(0);
  return output;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Other programs of this machine may use the ports of the pages. */
async function withFreePorts(commands: readonly string[]): Promise<string[]> {
  const text = commands.join('\n');
  const named = [...new Set(text.match(/(?<=127\.0\.0\.1:)\d+/g))];
  const free = await choosePorts('127.0.0.1', named.length);
  return named
    .reduce((all, port, i) => all.replaceAll(`127.0.0.1:${port}`, `127.0.0.1:${free[i]}`), text)
    .split('\n');
}

const preparations = new Set(PREPARED);

async function runBlock({ page, commands }: Block): Promise<void> {
  const own = commands.filter((command) => !isLeftOut(page, command));
  if (own.length === 0) return;
  for (const prepared of preparations) {
    if (!own.some((command) => prepared.match.test(command))) continue;
    preparations.delete(prepared);
    await run([prepared.to]);
  }
  await run(await withFreePorts(own.map(changed)));
}

test.each(WALKS.map((pages) => [pages[0] as string, pages] as const))(
  'the commands of %s',
  async (_first, pages) => {
    git(clone, 'clean', '-fdxq', '-e', 'node_modules', '-e', 'dist');
    // Readers of the other pages have run `npm start`, which prepares the checkout.
    if (!pages.includes('README.md')) await run(['node scripts/bootstrap.mjs setup']);
    for (const action of pages.flatMap(actionsOf)) {
      // Programs of the guide are shown to be saved, under the name that the commands have.
      if ('file' in action) writeFileSync(join(clone, basename(action.file)), codeOf(action.file));
      else await runBlock(action);
    }
    // No command changes a file of the checkout.
    expect(git(clone, 'status', '--porcelain', '--untracked-files=no')).toBe('');
  },
  3_600_000,
);
