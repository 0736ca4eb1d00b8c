import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'codegen/**/*.test.ts', 'lab/**/*.test.ts'],
    // TensorFlow is loaded per process and the machine may have two cores: processes, and few of them.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
