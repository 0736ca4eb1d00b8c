/** The last line of a test run. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { summarize } from '../../scripts/dev/test-summary.mjs';
import { ROOT } from './run-setup.js';

let scratch: string;

// Inside the checkout: the test files that are written here import vitest from its node_modules.
beforeEach(() => {
  scratch = mkdtempSync(join(ROOT, 'node_modules/.shoal-summary-'));
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

/** Runs the real vitest on test files with the reporter, and summarizes its counts. */
function runVitest(files: Readonly<Record<string, string>>): { line: string; code: number } {
  for (const [name, body] of Object.entries(files)) {
    const header = "import { afterAll, beforeAll, describe, expect, test } from 'vitest';";
    writeFileSync(join(scratch, `${name}.test.mjs`), `${header}\n${body}`);
  }
  writeFileSync(
    join(scratch, 'vitest.config.mjs'),
    "export default { test: { include: ['*.test.mjs'], exclude: [], pool: 'forks' } };",
  );
  const counts = join(scratch, 'counts.json');
  const reporter = join(ROOT, 'scripts/dev/test-summary.mjs');
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', '--root', scratch, `--reporter=${reporter}`];
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST')));
  const { status } = spawnSync(process.execPath, args, {
    cwd: scratch,
    env: { ...env, SHOAL_TEST_COUNTS: counts },
    encoding: 'utf8',
  });
  const code = status ?? 1;
  return { line: summarize(JSON.parse(readFileSync(counts, 'utf8')), code).line, code };
}

test('counts passed, failed and skipped tests of several files', () => {
  const good = "test('a', () => {}); test('b', () => {}); test.skip('c', () => {});";
  const bad = "test('d', () => expect(1).toBe(2)); test('e', () => {});";
  expect(runVitest({ good, bad })).toEqual({ line: '3 passed, 1 failed, 1 skipped', code: 1 });
});

test('omits skipped tests when there are none', () => {
  expect(runVitest({ good: "test('a', () => {});" })).toEqual({ line: '1 passed, 0 failed', code: 0 });
});

test('counts a file that does not load as a failure', () => {
  const files = { good: "test('a', () => {});", broken: "throw new Error('broken');" };
  expect(runVitest(files)).toEqual({ line: '1 passed, 1 failed', code: 1 });
});

const TWO_TESTS = "test('a', () => {}); test('b', () => {}); test.skip('c', () => {});";
const BROKEN_HOOK = "() => { throw new Error('broken'); }";

test('counts the tests of a file whose beforeAll fails as failed', () => {
  const files = { good: "test('z', () => {});", broken: `beforeAll(${BROKEN_HOOK}); ${TWO_TESTS}` };
  expect(runVitest(files)).toEqual({ line: '1 passed, 2 failed, 1 skipped', code: 1 });
});

test('counts the tests of a describe whose beforeAll fails as failed, beside a test that fails itself', () => {
  const inner = `describe('inner', () => { ${TWO_TESTS} });`;
  const broken = `describe('outer', () => { beforeAll(${BROKEN_HOOK}); ${inner} });
    test('x', () => expect(1).toBe(2)); test('y', () => {});`;
  expect(runVitest({ broken })).toEqual({ line: '1 passed, 3 failed, 1 skipped', code: 1 });
});

test('counts an afterAll that fails as one failure', () => {
  const broken = `describe('outer', () => { afterAll(${BROKEN_HOOK}); ${TWO_TESTS} });`;
  expect(runVitest({ broken })).toEqual({ line: '2 passed, 1 failed, 1 skipped', code: 1 });
});

test('counts the tests of a file whose process is killed as failed', () => {
  const killed = `beforeAll(() => { process.kill(process.pid, 'SIGKILL'); }); ${TWO_TESTS}`;
  expect(runVitest({ killed })).toEqual({ line: '0 passed, 2 failed, 1 skipped', code: 1 });
});

test('reports a failure when vitest failed outside of tests', () => {
  const loose = "test('a', () => { Promise.reject(new Error('loose')); });";
  expect(runVitest({ loose })).toEqual({ line: '1 passed, 1 failed', code: 1 });
});

test('is a failure when vitest counted nothing', () => {
  expect(summarize(undefined, 1).line).toBe('0 passed, 1 failed');
});
