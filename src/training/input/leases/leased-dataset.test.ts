/** Datasets of files as leased input: every format yields the same records by ranges as by complete files. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isShoalError } from '../../../base/errors/errors.js';
import { encodeExample } from '../../../tensorflow/formats/example/encode.js';
import { TFRecordWriter } from '../../../tensorflow/formats/tfrecord/writer.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Session } from '../../../tensorflow/session/session.js';
import type { Dataset } from '../dataset/dataset.js';
import { startFeeders } from '../dataset/generator.js';
import { fixedLenFeature } from '../dataset/parse-example.js';
import { fromTensors } from '../dataset/sources.js';
import { csv } from '../files/csv.js';
import { files, fixedLength, textLines, tfRecord } from '../files/files.js';
import { libSvm } from '../files/lib-svm.js';
import { LeasedDataset, leasable } from './leased-dataset.js';
import { LedgerHost } from './ledger-host.js';
import type { PlannedInput } from './sharded-files.js';

let folder: string;
const at = (name: string) => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-leased-'));
  const rows = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
  for (const [file, [from, to]] of [[0, 7] as const, [7, 17] as const].entries()) {
    await using writer = new TFRecordWriter(at(`r-${file}.tfrecord`));
    for (const id of rows(from, to)) await writer.write(encodeExample({ id: [BigInt(id)] }));
    const ends = file === 0 ? '\r\n' : '\n';
    const text = (line: (id: number) => string) => rows(from, to).map(line).join(ends);
    // One file ends with a newline, the other does not.
    writeFileSync(at(`t-${file}.txt`), text((id) => `line ${id}`) + (file === 0 ? ends : ''));
    writeFileSync(at(`c-${file}.csv`), `id,name${ends}${text((id) => `${id},"n, ""${id}"""`)}`);
    writeFileSync(
      at(`s-${file}.svm`),
      `# a comment${ends}${text((id) => `${id} qid:3 ${id % 5}:1 # x`)}${ends}${ends}`,
    );
    writeFileSync(
      at(`f-${file}.bin`),
      Buffer.concat([Buffer.from('head'), ...rows(from, to).map((id) => Buffer.from([65, id]))]),
    );
    writeFileSync(at(`z-${file}.txt.gz`), gzipSync(text((id) => `line ${id}`)));
  }
  writeFileSync(at('m.csv'), '1,"a\nb"\n2,c\n3,d\n');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Fetched = Readonly<Record<string, Output>>;

async function valuesOf(session: Session, fetches: Fetched): Promise<unknown[][]> {
  const batches: unknown[][] = [];
  for (;;) {
    try {
      const values = await session.run(fetches);
      batches.push(Object.values(values).map((tensor) => tensor.toArray()));
    } catch (error) {
      if (isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return batches;
      throw error;
    }
  }
}

/** All batches of the dataset itself. */
async function whole(make: () => Dataset<Fetched>): Promise<unknown[][]> {
  const graph = new Graph();
  const iterator = graph.asDefault(() => make().iterator());
  const next = graph.asDefault(() => iterator.getNext());
  await using session = Session.open({ graph });
  await session.run(iterator.initializer);
  return await valuesOf(session, next);
}

/** All batches of one worker, by leases of few records. */
async function leased(
  make: () => Dataset<Fetched>,
): Promise<{ batches: unknown[][]; planned: PlannedInput }> {
  const graph = new Graph();
  const { input, built } = graph.asDefault(() => {
    const input = leasable(make(), { recordsPerShard: 6 });
    if (!(input instanceof LeasedDataset)) throw new Error(`not leased: ${input}`);
    return { input, built: input.build() };
  });
  const planned = await input.plan();
  built.input.connect(new LedgerHost(planned.plan), 'w');
  await using session = Session.open({ graph });
  await session.run(graph.getCollection('table_initializer') as never);
  const feeding = startFeeders(session);
  const batches: unknown[][] = [];
  try {
    for (;;) {
      const { position, values } = await session.run({ position: built.position, values: built.value });
      await built.input.completed(position);
      batches.push(Object.values(values).map((tensor) => tensor.toArray()));
    }
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) throw error;
  }
  await feeding.stop();
  return { batches, planned };
}

const inColumns = (batches: unknown[][]) => batches.flatMap(([first]) => first as unknown[]);

const FORMATS: Record<string, () => Dataset<Fetched>> = {
  TFRecord: () =>
    tfRecord(at('r-*.tfrecord'))
      .batch(3)
      .parseExample({ id: fixedLenFeature([], 'int64') }) as unknown as Dataset<Fetched>,
  text: () =>
    textLines([at('t-0.txt'), at('t-1.txt')])
      .map((line) => ({ line }))
      .batch(3),
  CSV: () =>
    csv(at('c-*.csv'), { columns: { id: 'int64', name: 'string' }, header: true })
      .map(({ id, name }) => ({ both: raw.stringJoin([raw.asString(id), name]) }), { parallel: 2 })
      .batch(3),
  LibSVM: () =>
    libSvm(at('s-*.svm'), { features: 5 })
      .map(({ label, features }) => ({ label, dense: features.toDense() }))
      .batch(3) as unknown as Dataset<Fetched>,
  'fixed length': () =>
    fixedLength(at('f-*.bin'), { recordBytes: 2, headerBytes: 4 })
      .map((bytes) => ({ bytes }))
      .batch(3),
  'gzip text': () =>
    textLines(files(at('z-*.gz')), { compression: 'gzip' })
      .map((line) => ({ line }))
      .batch(3),
};

describe('leased ranges contain the same records as the files', () => {
  test.each(Object.entries(FORMATS))('%s', async (format, make) => {
    const [expected, { batches, planned }] = [inColumns(await whole(make)), await leased(make)];
    expect(inColumns(batches)).toEqual(expected);
    expect(expected).toHaveLength(17);
    // Files of 7 and 10 records: each ends with a batch of one.
    expect(batches.map(([first]) => (first as unknown[]).length)).toEqual([3, 3, 1, 3, 3, 3, 1]);
    const sizes = planned.plan.shards.map(({ records }) => records);
    expect(sizes).toEqual(format === 'gzip text' ? [7, 10] : [6, 1, 6, 4]);
  });

  test('a CSV file with multi-line records is one shard', async () => {
    const make = () =>
      csv(at('m.csv'), { columns: { id: 'int64', name: 'string' } }).batch(2) as unknown as Dataset<Fetched>;
    const { batches, planned } = await leased(make);
    expect(batches).toEqual(await whole(make));
    expect(planned.plan.shards).toHaveLength(1);
    expect(planned.notes).toEqual(['1 files are one shard each: some of its records contain newlines']);
  });
});

test('a worker whose file differs from the chief’s reports it', async () => {
  const changed = at('changed.txt');
  writeFileSync(changed, 'a\nb\n');
  const graph = new Graph();
  const input = graph.asDefault(() => leasable(textLines(changed).batch(1))) as LeasedDataset;
  const built = graph.asDefault(() => input.build());
  built.input.connect(new LedgerHost((await input.plan()).plan), '/job:worker/task:1');
  writeFileSync(changed, 'a\nb\nc\n');
  await using session = Session.open({ graph });
  const feeding = startFeeders(session);
  await expect(built.input.admit()).rejects.toThrow(/6 bytes on \/job:worker\/task:1 and 4 on the chief/);
  await feeding.stop();
});

describe('a dataset', () => {
  const lines = () => textLines(at('t-*.txt')).map((line) => ({ line }));

  test('with shuffle, repeat and batch is converted to a ledger plan', async () => {
    const { planned, batches } = await leased(() =>
      lines().shuffle(4, { seed: 3 }).repeat(2).batch(3).repeat(2),
    );
    expect(planned.plan).toMatchObject({ epochs: 4, seed: 3, shuffleShards: true });
    const ids = inColumns(batches).sort();
    expect(ids).toEqual(
      Array.from({ length: 17 }, (_, i) => Array(4).fill(`line ${i}`))
        .flat()
        .sort(),
    );
  });

  test('has enough shards for all workers', async () => {
    const graph = new Graph();
    const input = graph.asDefault(() => leasable(lines().batch(2))) as LeasedDataset;
    const shardsFor = async (workers: number) => (await input.plan({ workers })).plan.shards.length;
    expect(await shardsFor(1)).toBe(2);
    expect(await shardsFor(2)).toBeGreaterThanOrEqual(8);
  });

  test('with dropRemainder skips the remainder of each file', async () => {
    const { planned, batches } = await leased(() => lines().batch(3, { dropRemainder: true }));
    expect(batches.every(([first]) => (first as unknown[]).length === 3)).toBe(true);
    expect(inColumns(batches)).toHaveLength(15);
    expect(planned.notes).toEqual(['dropRemainder skips 2 records']);
  });

  test.each<[string, () => Dataset<Fetched>, RegExp]>([
    [
      'filter',
      () =>
        lines()
          .filter(() => true)
          .batch(3),
      /filter\(\)/,
    ],
    ['single records', lines, /batch\(\) is missing/],
    ['shuffled batches', () => lines().batch(3).shuffle(2), /shuffles batches/],
    ['a part of its own', () => lines().shard(2, 0).batch(3), /its own part/],
    ['batches of batches', () => lines().batch(3).batch(2), /batches of batches/],
  ])('reports why it is not leased: %s', (_, make, why) => {
    expect(new Graph().asDefault(() => leasable(make()))).toMatch(why);
  });

  test('without files is not leasable', () => {
    expect(new Graph().asDefault(() => leasable(fromTensors({ x: 1 })))).toBeUndefined();
  });
});
