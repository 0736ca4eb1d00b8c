/** The test files that `npm test`, `npm run test:slow` and a path select, as listed by vitest. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { selectTests } from '../../scripts/dev/test-selection.mjs';
import { LONG_TESTS } from '../longest-first.js';
import { SLOW_TESTS, SLOW_UNIT_TESTS } from '../slow-tests.js';
import { childEnvironment, ROOT } from './run-setup.js';

/** The files that vitest runs for the arguments of `npm test`. */
function listed(...args: string[]): string[] {
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [vitest, 'list', '--filesOnly', ...selectTests(args), '--json'],
    { cwd: ROOT, env: childEnvironment({}), encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(stderr);
  const files = JSON.parse(stdout.slice(stdout.indexOf('['))) as { file: string }[];
  return files.map(({ file }) => relative(ROOT, file)).sort();
}

describe('the tests', () => {
  let [quick, slow, all]: string[][] = [[], [], []];
  beforeAll(() => {
    [quick, slow, all] = [listed(), listed('--slow'), listed('--all')];
  });

  test('are each in exactly one of the two groups', () => {
    expect([...(quick ?? []), ...(slow ?? [])].sort()).toEqual(all);
  });

  test.each([
    ['units', /^src\/tensorflow\/session\//],
    ['gradients by Python', /^src\/tensorflow\/gradients\/ops\/select\.test/],
    ['optimizers by Python', /^src\/tensorflow\/optimizers\/trajectories\.test/],
    ['formats by Python', /^test\/formats\/checkpoints\.test/],
    ['checkpoints by Python', /^src\/training\/train\/checkpoints\/saver\.test/],
    ['the command line, and a ps that is killed', /^test\/cli\/cluster\.test/],
    ['records exactly once', /^test\/cluster\/shards-monitored\.test/],
    ['the lab', /^lab\/soak\/soak\.test/],
  ])('of the quick group include %s', (_kind, file) => {
    expect(quick).toContainEqual(expect.stringMatching(file));
  });

  test('that share processes count neither handles nor memory, which other files have left', () => {
    const units = listed('--project=*-units');
    expect(units.length).toBeGreaterThan(50);
    const counting = units.filter((file) =>
      /liveHandles|nativeBytes|memoryUsage/.test(readFileSync(join(ROOT, file), 'utf8')),
    );
    expect(counting).toEqual([]);
  });

  test.each(LONG_TESTS)('that begin first include %s', (file) => {
    expect(all).toContain(file);
  });

  test.each([...SLOW_TESTS, ...SLOW_UNIT_TESTS])('that %s matches exist', (pattern) => {
    const start = pattern.replace(/[!*{].*/, '');
    expect(slow?.filter((file) => file.startsWith(start))).not.toEqual([]);
  });

  test('below a given path run, whatever their group', () => {
    const files = listed('test/cli');
    expect(files).toContain('test/cli/commands.test.ts');
    expect(files).toContain('test/cli/checkpoint.test.ts');
  });
});

test.each([
  [[], ['--project=quick*']],
  [['--slow'], ['--project=slow*']],
  [
    ['--all', '--bail=1'],
    ['--project=quick*', '--project=slow*', '--bail=1'],
  ],
  [['--pages'], ['--project=pages']],
  [['--maxWorkers=1'], ['--project=quick*', '--maxWorkers=1']],
  [
    ['--reporter', 'verbose'],
    ['--project=quick*', '--reporter', 'verbose'],
  ],
  [['src/tensorflow/graph'], ['src/tensorflow/graph']],
  [['codegen'], ['codegen']],
  [
    ['--maxWorkers', '1', 'codegen'],
    ['--maxWorkers', '1', 'codegen'],
  ],
  [
    ['--no-color', 'src/tensorflow/graph'],
    ['--no-color', 'src/tensorflow/graph'],
  ],
  [
    ['-t', 'a name'],
    ['-t', 'a name'],
  ],
])('npm test -- %j calls vitest with %j', (args, expected) => {
  expect(selectTests(args)).toEqual(expected);
});
