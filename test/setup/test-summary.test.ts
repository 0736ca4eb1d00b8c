/** The last line of a test run. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { summarize } from '../../scripts/house/test-summary.mjs';
import { ROOT } from './run-setup.js';

let scratch: string;

// Inside the checkout: the test files that are written here import vitest from its node_modules.
beforeEach(() => {
  scratch = mkdtempSync(join(ROOT, 'node_modules/.shoal-summary-'));
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

/** Runs the real vitest on test files and summarizes the report that it writes. */
function runVitest(files: Readonly<Record<string, string>>): { line: string; code: number } {
  for (const [name, body] of Object.entries(files)) {
    writeFileSync(join(scratch, `${name}.test.mjs`), `import { expect, test } from 'vitest';\n${body}`);
  }
  const report = join(scratch, 'report.json');
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const args = [
    'run',
    '--root',
    scratch,
    '--exclude',
    'none',
    '--reporter=json',
    `--outputFile.json=${report}`,
  ];
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST')));
  writeFileSync(
    join(scratch, 'vitest.config.mjs'),
    "export default { test: { include: ['*.test.mjs'], exclude: [] } };",
  );
  const code =
    spawnSync(process.execPath, [vitest, ...args], { cwd: scratch, env, encoding: 'utf8' }).status ?? 1;
  return { line: summarize(JSON.parse(readFileSync(report, 'utf8')), code).line, code };
}

test('counts passed, failed and skipped tests of several files', () => {
  const good = "test('a', () => {}); test('b', () => {}); test.skip('c', () => {});";
  const bad = "test('d', () => expect(1).toBe(2)); test('e', () => {});";
  expect(runVitest({ good, bad })).toEqual({ line: '3 passed, 1 failed, 1 skipped', code: 1 });
});

test('says nothing of skipped tests when there are none', () => {
  expect(runVitest({ good: "test('a', () => {});" })).toEqual({ line: '1 passed, 0 failed', code: 0 });
});

test('counts a file that does not load as a failure', () => {
  const files = { good: "test('a', () => {});", broken: "throw new Error('broken');" };
  expect(runVitest(files)).toEqual({ line: '1 passed, 1 failed', code: 1 });
});

test('is never clean when vitest failed outside of tests', () => {
  const loose = "test('a', () => { Promise.reject(new Error('loose')); });";
  expect(runVitest({ loose })).toEqual({ line: '1 passed, 1 failed', code: 1 });
});

test('is a failure when vitest wrote no report', () => {
  expect(summarize(undefined, 1).line).toBe('0 passed, 1 failed');
});
