/** Errors about input files: the same in one process, where TensorFlow reads, and on a cluster, where the chief scans. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defineJob } from '../../../app/job/definition/define-job.js';
import { runInProcess } from '../../../app/job/running/run-local.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { cast } from '../../../tensorflow/ops/math.js';
import { GradientDescentOptimizer } from '../../../tensorflow/optimizers/rules/gradient-descent.js';
import { variable } from '../../../tensorflow/variables/variable-scope.js';
import * as data from '../data.js';
import type { Dataset } from '../dataset/dataset.js';
import { leasable } from '../leases/leased-dataset.js';
import type { LeasableInput } from '../leases/sharded-files.js';
import { explainInputError } from './input-errors.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-input-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const columns = { x: 'float32', n: { dtype: 'int32', default: 0 } } as const;
const rows = (source: string | readonly string[], options = {}) =>
  data.csv(source, { header: true, columns, ...options }).batch(2);

/** The error of a job that reads a dataset in this process. */
const inProcess = (input: () => Dataset<never>): Promise<ShoalError> => {
  const job = defineJob({
    name: 'reads',
    input: input as never,
    model({ input: read }) {
      const w = variable('w', { shape: [1] });
      // The op reads a batch for each step.
      const [first] = Object.values(read as Readonly<Record<string, Output>>);
      const count = cast(raw.size(first as Output), 'float32');
      return { loss: w.mul(count).sum(), optimizer: new GradientDescentOptimizer(0) };
    },
    train: { lastStep: 100 },
  });
  return runInProcess(job, { dir: folder }).then(
    () => Promise.reject(new Error('the job ended well')),
    (error: ShoalError) => error,
  );
};

/** The error of the chief of a cluster, which splits the files. */
const onChief = (input: () => Dataset<never>): Promise<ShoalError> => {
  using graph = new Graph();
  const found = graph.asDefault(() => leasable(input() as never, {})) as LeasableInput<never>;
  return found.plan().then(
    () => Promise.reject(new Error('the chief found records')),
    (error: ShoalError) => error,
  );
};

const lines = (source: string | readonly string[]) =>
  data
    .textLines(source)
    .batch(2)
    .map((text) => ({ text }));

test.each([
  [
    'a pattern without files',
    () => lines(join(folder, 'none*.txt')),
    'SHOAL_NOT_FOUND',
    /^No files match .*none\*\.txt$/,
  ],
  [
    'a file that does not exist',
    () => lines(join(folder, 'none.txt')),
    'SHOAL_NOT_FOUND',
    /^there is no file .*none\.txt$/,
  ],
  [
    'an empty text file',
    () => lines(file('a.txt', '')),
    'SHOAL_INVALID_ARGUMENT',
    /^No records found in .*a\.txt$/,
  ],
  [
    'empty record files',
    () =>
      data
        .tfRecord([file('a', ''), file('b', '')])
        .batch(2)
        .map((record) => ({ record })),
    'SHOAL_INVALID_ARGUMENT',
    /^No records found in .*a, .*b$/,
  ],
  [
    'a CSV file with only a header',
    () => rows(file('a.csv', 'x,n\n')),
    'SHOAL_INVALID_ARGUMENT',
    /^No records found in .*a\.csv$/,
  ],
  [
    'an empty CSV file',
    () => rows(file('a.csv', '')),
    'SHOAL_CORRUPT',
    /a\.csv, line 1: the file is empty; it should begin with a header$/,
  ],
] as const)('%s is the same error in one process and on a cluster', async (_title, input, code, message) => {
  const make = input as unknown as () => Dataset<never>;
  const errors = [await inProcess(make), await onChief(make)];
  for (const error of errors) expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
  expect(errors[0]?.message).toBe(errors[1]?.message);
  expect(errors[0]?.hint).toBe(errors[1]?.hint);
});

test.each([
  ['a wrong number', '1,2\n3,4\nfoo,5\n', 4, /column 'x' is "foo", which is not of type float32$/],
  ['a fraction for an integer', '1,2\n3,4.5\n', 3, /column 'n' is "4\.5", which is not of type int32$/],
  ['a missing value', '1,\n,2\n', 3, /column 'x' is empty and has no default$/],
  ['too few fields', '1,2\n3\n', 3, /it has 1 field instead of 2 \(x, n\)$/],
  ['a row behind one of several lines', '"1\n",2\nbad,5\n', 4, /column 'x' is "bad"/],
])('%s in a CSV file names file and line', async (_title, text, line, reason) => {
  const good = file('a.csv', 'x,n\n1,2\n');
  const bad = file('b.csv', `x,n\n${text}`);
  const error = await inProcess(() => rows([good, bad]) as never);
  expect(error).toMatchObject({ code: 'SHOAL_CORRUPT', message: expect.stringMatching(reason) });
  expect(error.message).toContain(`${bad}, line ${line}: `);
  expect(error.hint).toContain('Correct the line');
});

test('a quote that is not closed names its line in a large file, and does not block the task', async () => {
  const many = (count: number) => 'one,2\n'.repeat(count);
  const path = file('a.csv', `x,n\n${many(4)}"two,2\n${many(200_000)}`);
  const columns = { x: 'string', n: 'int32' } as const;
  let longestMs = 0;
  let ticked = performance.now();
  const ticking = setInterval(() => {
    longestMs = Math.max(longestMs, performance.now() - ticked);
    ticked = performance.now();
  }, 10);
  const begun = performance.now();
  const error = await inProcess(() => data.csv(path, { header: true, columns }).batch(2) as never);
  clearInterval(ticking);
  expect(error.message).toContain(`${path}, line 6: a quote opened in this line is not closed within 1.0 MB`);
  expect(performance.now() - begun).toBeLessThan(30_000);
  expect(longestMs).toBeLessThan(10_000);
});

test('a quote that is open at the end of the file names its line', async () => {
  const path = file('a.csv', 'x,n\n1,2\n"3\n,4\n5",6\n"7,8\n\n');
  const error = await inProcess(() => rows(path) as never);
  expect(error.message).toContain(`${path}, line 3: column 'x' is "3\\n,4\\n5"`);
  const words = file('b.csv', 'x,n\na,2\n"b\nc""\n",4\n"7,8\n\n');
  const columns = { x: 'string', n: 'int32' } as const;
  const open = await inProcess(() => data.csv(words, { header: true, columns }).batch(2) as never);
  expect(open.message).toContain(`${words}, line 6: a quote opened in this line is not closed`);
});

test('an error whose reason is not found in time stays as it is', async () => {
  using graph = new Graph();
  graph.asDefault(() => rows(file('a.csv', `x,n\n${'1,2\n'.repeat(500_000)}bad,2\n`)));
  const error = new ShoalError('SHOAL_TF_INVALID_ARGUMENT', 'Field 0 in record is not a valid float: bad');
  expect(await explainInputError(error, { graph, searchMs: 0 })).toBe(error);
  expect(await explainInputError(error, { graph })).toMatchObject({ code: 'SHOAL_CORRUPT' });
});

test('columns that are not selected may contain anything', async () => {
  const path = file('a.csv', 'x,n\n1,one\ntwo,2\n');
  const error = await inProcess(() => rows(path, { select: ['x'] }) as never);
  expect(error.message).toMatch(/line 3: column 'x' is "two"/);
});

test('an input without a batch whose files have records ends as before', async () => {
  const path = file('a.txt', 'one\n');
  await expect(
    inProcess(
      () =>
        data
          .textLines(path)
          .batch(2, { dropRemainder: true })
          .map((text) => ({ text })) as never,
    ),
  ).rejects.toThrow('the job ended well');
});
