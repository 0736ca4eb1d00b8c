/** Bootstrap from a fresh clone: the last line of a test run, the npm packages, and the end of child processes. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { packagesAreCurrent } from '../../scripts/dev/install.mjs';
import { locateTensorFlow } from '../../src/tensorflow/native/library/locate.js';
import { ROOT, startNode, waitUntil } from './run-setup.js';

const BOOTSTRAP = join(ROOT, 'scripts/bootstrap.mjs');
const ready = () => ({
  SHOAL_TF_DIR: locateTensorFlow().dir,
  SHOAL_ORACLE_PYTHON: process.env.SHOAL_ORACLE_PYTHON,
});

test('a test run passes its arguments to vitest and ends with the count', async () => {
  const args = [BOOTSTRAP, 'test', 'src/base/async/deadline.test.ts', '-t', 'no test has this name'];
  const { code, stdout } = await startNode(args, ready()).ended;
  expect(stdout.trimEnd().split('\n').at(-1)).toMatch(/^0 passed, 0 failed, \d+ skipped$/);
  expect(code).toBe(0);
});

test('a suite whose set-up fails counts as failed in the last line', async () => {
  // Inside the checkout: the test file imports vitest from its node_modules.
  const root = mkdtempSync(join(ROOT, 'node_modules/.shoal-bootstrap-'));
  try {
    writeFileSync(join(root, 'vitest.config.mjs'), "export default { test: { include: ['*.test.mjs'] } };");
    writeFileSync(
      join(root, 'broken.test.mjs'),
      `import { beforeAll, describe, test } from 'vitest';
      describe('broken', () => {
        beforeAll(() => { throw new Error('no set-up'); });
        test('a', () => {});
        test('b', () => {});
      });
      test('c', () => {});`,
    );
    const { code, stdout } = await startNode(
      [BOOTSTRAP, 'test', '--root', root, '--exclude', 'none'],
      ready(),
    ).ended;
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('1 passed, 2 failed');
    expect(code).toBe(1);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});

test('an unknown command is an error that lists the known ones', async () => {
  const { code, stderr } = await startNode([BOOTSTRAP, 'dance'], ready()).ended;
  expect(code).toBe(1);
  expect(stderr).toContain('start|test|bench');
});

test('a run that is terminated ends its children and grandchildren', async () => {
  const grandchild = "console.log('grandchild ' + process.pid); setInterval(() => {}, 1000)";
  const child = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(grandchild)}], { stdio: 'inherit' });
    setInterval(() => {}, 1000);`;
  const processes = pathToFileURL(join(ROOT, 'scripts/setup/processes.mjs')).href;
  const body = `const { runAttached } = await import(${JSON.stringify(processes)});
    process.exitCode = await runAttached(process.execPath, ['-e', ${JSON.stringify(child)}]);`;
  const run = startNode(['--input-type=module', '-e', body], {});
  let pid = 0;
  run.child.stdout?.on('data', (text: string) => {
    pid = Number(/grandchild (\d+)/.exec(text)?.[1] ?? pid);
  });
  await waitUntil('the grandchild runs', () => pid > 0);
  run.child.kill('SIGTERM');
  expect((await run.ended).code).toBe(143);
  await waitUntil('the grandchild has exited', () => !isRunning(pid));
});

describe('npm packages', () => {
  let root: string;

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'shoal-packages-'));
    mkdirSync(join(root, 'node_modules'));
    const wanted = {
      '': {},
      'node_modules/a': { version: '1.0.0' },
      'node_modules/b': { version: '2.0.0', optional: true },
    };
    writeFileSync(join(root, 'package-lock.json'), JSON.stringify({ packages: wanted }));
  });

  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const install = (packages: Readonly<Record<string, { version: string }>>) =>
    writeFileSync(join(root, 'node_modules/.package-lock.json'), JSON.stringify({ packages }));

  test('that were never installed are not current', () => {
    expect(packagesAreCurrent(root)).toBe(false);
  });

  test('are current without the optional ones of other platforms', () => {
    install({ 'node_modules/a': { version: '1.0.0' } });
    expect(packagesAreCurrent(root)).toBe(true);
  });

  test('of another version than the lock file’s are not current', () => {
    install({ 'node_modules/a': { version: '0.9.0' } });
    expect(packagesAreCurrent(root)).toBe(false);
  });

  test('of another version than the lock file’s are not current even when optional', () => {
    install({ 'node_modules/a': { version: '1.0.0' }, 'node_modules/b': { version: '1.0.0' } });
    expect(packagesAreCurrent(root)).toBe(false);
  });
});

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
