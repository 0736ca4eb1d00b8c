import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'codegen/**/*.test.ts', 'lab/**/*.test.ts'],
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
