import { configDefaults, defineConfig } from 'vitest/config';
import { PAGE_TESTS, SLOW_TESTS } from './test/slow-tests.js';

const ALL_TESTS = [
  'src/**/*.test.ts',
  'test/**/*.test.ts',
  'codegen/**/*.test.ts',
  'lab/**/*.test.ts',
  'bench/**/*.test.ts',
];

export default defineConfig({
  // The examples import `shoal`; in a checkout that is the source.
  resolve: { tsconfigPaths: true },
  test: {
    // `npm test` runs `quick`, `npm run test:slow` the rest, but for `pages`, which runs alone.
    projects: [
      {
        extends: true,
        test: {
          name: 'quick',
          include: ALL_TESTS,
          exclude: [...configDefaults.exclude, ...SLOW_TESTS, ...PAGE_TESTS],
        },
      },
      { extends: true, test: { name: 'slow', include: SLOW_TESTS } },
      { extends: true, test: { name: 'pages', include: PAGE_TESTS } },
    ],
    // TensorFlow is loaded per process and the machine may have two cores: processes, and few of them.
    pool: 'forks',
    maxWorkers: 2,
    // Bounds against hanging, not measures: a shared machine may lose its processors for seconds at a time, and
    // Python's import of TensorFlow alone can take a minute then.
    testTimeout: 300_000,
    hookTimeout: 600_000,
    retry: process.env.CI ? 1 : 0,
  },
});
