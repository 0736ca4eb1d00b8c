/** docs/benchmarks.md: each benchmark has a section, and new results replace only their own. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compare } from '../../bench/harness.js';
import { circumstancesNow, type Section, updatedPage } from '../../bench/results-page.js';
import { ROOT } from '../setup/run-setup.js';

const ALL: readonly Section[] = [
  { name: 'one', about: 'the first' },
  { name: 'two', about: 'the second' },
];

const measured = (name: string, shoal: number): Section => ({
  name,
  about: `about ${name}`,
  results: {
    rows: [compare(name, 'a row', 'runs/s', 'higher', [shoal, shoal, 2 * shoal], [1000, 1000, 1000], 1.5)],
    circumstances: circumstancesNow('2.21.0'),
  },
});

test('a section has the machine, the date, medians, ratio, spread and goal', () => {
  const page = updatedPage('', [measured('one', 2000)], ALL);
  expect(page).toContain('| a row | 2,000 runs/s | 1,000 runs/s | 2.00 | 2.00 to 4.00 | 1.5 |\n');
  expect(page).toMatch(/^20\d\d-\d\d-\d\d; .* cores, \d+ GB; .*; Node \d.*; TensorFlow 2\.21\.0; load /m);
});

test('tables follow the rows', () => {
  const section = measured('one', 2000);
  const tables = [{ head: ['', 'p50'], lines: [['detect', '3 ms']] }];
  const page = updatedPage('', [{ ...section, results: { ...section.results!, tables } }], ALL);
  expect(page).toContain(' | 1.5 |\n\n|  | p50 |\n|---|---|\n| detect | 3 ms |\n<!-- /bench -->');
});

test('results of a busy machine are marked', () => {
  const section = measured('one', 2000);
  const withLoad = (load: number): Section => ({
    ...section,
    results: { ...section.results!, circumstances: { ...circumstancesNow('2.21.0'), cores: 2, load } },
  });
  expect(updatedPage('', [withLoad(0.5)], ALL)).not.toContain('busy');
  expect(updatedPage('', [withLoad(20)], ALL)).toContain(
    'load before the run 20.0.\n\n**The machine was busy',
  );
});

test('a benchmark without results has a place for them', () => {
  expect(updatedPage('', [], ALL)).toContain('No results yet: `npm run bench -- two --write`.');
});

test('new results replace those of their benchmark only', () => {
  const first = updatedPage('', [measured('one', 2000), measured('two', 3000)], ALL);
  const second = updatedPage(first, [measured('one', 5000)], ALL);
  expect(second).toContain('| 5,000 runs/s |');
  expect(second).not.toContain('| 2,000 runs/s |');
  expect(second).toContain('| 3,000 runs/s |');
  expect(updatedPage(second, [], ALL)).toBe(second);
});

test('the page has a section for each benchmark', () => {
  const page = readFileSync(join(ROOT, 'docs/benchmarks.md'), 'utf8');
  const names = readdirSync(join(ROOT, 'bench'))
    .filter((file) => file.endsWith('.ts') && !['main.ts', 'harness.ts', 'results-page.ts'].includes(file))
    .map((file) => file.replace(/\.ts$/, ''));
  expect([...page.matchAll(/^<!-- bench: (\S+) -->$/gm)].map(([, name]) => name)).toEqual(names.sort());
});
