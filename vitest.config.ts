import { configDefaults, defineConfig } from 'vitest/config';
import { LongestFirst } from './test/longest-first.js';
import { PAGE_TESTS, SLOW_TESTS, SLOW_UNIT_TESTS, UNIT_TESTS } from './test/slow-tests.js';

const ALL_TESTS = [
  'src/**/*.test.ts',
  'test/**/*.test.ts',
  'codegen/**/*.test.ts',
  'lab/**/*.test.ts',
  'bench/**/*.test.ts',
];

const project = (
  name: string,
  include: readonly string[],
  exclude: readonly string[] = [],
  options: { readonly isolate?: boolean } = {},
) => ({
  extends: true as const,
  test: { ...options, name, include: [...include], exclude: [...configDefaults.exclude, ...exclude] },
});

export default defineConfig({
  // The examples import `shoal`; in a checkout that is the source.
  resolve: { tsconfigPaths: true },
  test: {
    // `npm test` runs `quick*`, `npm run test:slow` the rest, but for `pages`, which runs alone.
    projects: [
      project('quick', ALL_TESTS, [...SLOW_TESTS, ...SLOW_UNIT_TESTS, ...UNIT_TESTS, ...PAGE_TESTS]),
      project('quick-units', UNIT_TESTS, SLOW_UNIT_TESTS, { isolate: false }),
      project('slow', SLOW_TESTS),
      project('slow-units', SLOW_UNIT_TESTS, [], { isolate: false }),
      project('pages', PAGE_TESTS),
    ],
    // TensorFlow is loaded per process and the machine may have two cores: processes, and few of them.
    pool: 'forks',
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // Bounds against hanging, not measures: a shared machine may lose its processors for seconds at a time, and
    // Python's import of TensorFlow alone can take a minute then.
    testTimeout: 300_000,
    hookTimeout: 600_000,
    retry: process.env.CI ? 1 : 0,
  },
});
