import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import { DirectorySource } from './directory-source.js';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'shoal-runs-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A job in one process with a curve of losses. */
async function run(name: string, losses: readonly number[]): Promise<string> {
  const directory = join(root, name);
  const writer = new FileWriter(join(directory, 'worker-0', 'summaries'));
  for (const [step, loss] of losses.entries()) writer.addScalar('loss', loss, step);
  await writer.close();
  return directory;
}

const lossesOf = async (source: DirectorySource) => {
  const { tasks } = await source.state();
  return Object.fromEntries(
    tasks.map(({ task, curves }) => [task, curves.map(({ name, value }) => [name, ...value.slice(-1)])]),
  );
};

test('several jobs are shown side by side, by their names', async () => {
  const [a, b] = [await run('a', [3]), await run('b', [2, 1])];
  const source = await DirectorySource.open([a, b]);
  const { runs, cluster, live } = await source.state();
  expect([cluster, live]).toEqual(['2 runs', false]);
  expect(runs.map(({ name, lastStep, directory }) => [name, lastStep, directory])).toEqual([
    ['a', 0, a],
    ['b', 1, b],
  ]);
  expect(Object.keys(await lossesOf(source))).toEqual(['a', 'b']);
});

test('a directory of jobs stands for them, with the parameters of trials; the same names are told apart', async () => {
  await run('sweep/rate-0.1/seen', [1]);
  await run('sweep/rate-0.2/seen', [2]);
  await run('sweep/trial', [3]);
  writeFileSync(
    join(root, 'sweep/trial/trial.json'),
    JSON.stringify({ params: { rate: 0.5 }, state: 'done' }),
  );
  const source = await DirectorySource.open(
    ['rate-0.1', 'rate-0.2', ''].map((name) => join(root, 'sweep', name)),
  );
  const { runs } = await source.state();
  expect(runs.map(({ name, params, state }) => [name, params, state])).toEqual([
    ['rate-0.1/seen', '', ''],
    ['rate-0.2/seen', '', ''],
    ['trial', 'rate 0.5', 'done'],
  ]);
});

test('a job that still writes is followed; without a change the state is the same', async () => {
  const directory = await run('one', [5]);
  let now = 0;
  const source = await DirectorySource.open([directory], () => now);
  const first = await source.state();
  now += 60_000;
  expect(await source.state()).toBe(first);
  await run('one', [5, 4]);
  expect(await source.state()).toBe(first);
  now += 60_000;
  expect((await source.state()).cursor).toBe(first.cursor + 1);
  expect((await source.state()).tasks[0]!.step).toBe(1);
});

test('a directory that is away for a while is shown again as it was', async () => {
  const directory = await run('one', [5]);
  let now = 0;
  const source = await DirectorySource.open([directory], () => now);
  const first = await source.state();
  renameSync(directory, `${directory}-away`);
  now += 60_000;
  await expect(source.state()).rejects.toThrow(/no directory|ENOENT/);
  renameSync(`${directory}-away`, directory);
  now += 60_000;
  expect(await source.state()).toBe(first);
});

test('a directory with nothing to show is refused', async () => {
  mkdirSync(join(root, 'empty'));
  await expect(DirectorySource.open([await run('a', [1]), join(root, 'empty')])).rejects.toThrow(
    /empty has no/,
  );
  await expect(DirectorySource.open([join(root, 'nowhere')])).rejects.toThrow(/there is no directory/);
});
