import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RECORD_FOOTER_BYTES, RECORD_HEADER_BYTES } from '../../../tensorflow/formats/tfrecord/record.js';
import { TFRecordWriter } from '../../../tensorflow/formats/tfrecord/writer.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import * as data from '../data.js';
import { drain } from '../testing/drain.js';
import { explainDataLoss } from './corrupt-records.js';
import { scanFile } from './record-scan.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-corrupt-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const DATA_BYTES = 4;
const FRAME = RECORD_HEADER_BYTES + DATA_BYTES + RECORD_FOOTER_BYTES;
const word = (prefix: string, i: number) => `${prefix}${String(i).padStart(3, '0')}`;
const words = (prefix: string, indices: readonly number[]) => indices.map((i) => word(prefix, i));
const upTo = (count: number, without: readonly number[] = []) =>
  Array.from({ length: count }, (_, i) => i).filter((i) => !without.includes(i));

/** A file of ten records of equal length, damaged by `damage`. */
async function file(
  prefix: string,
  damage: (bytes: Buffer) => Buffer | undefined = () => undefined,
): Promise<string> {
  const path = join(folder, `${prefix}.tfrecord`);
  await using writer = new TFRecordWriter(path);
  for (const i of upTo(10)) await writer.write(Buffer.from(word(prefix, i)));
  await writer.close();
  const bytes = readFileSync(path);
  writeFileSync(path, damage(bytes) ?? bytes);
  return path;
}

const flip = (at: number) => (bytes: Buffer) => {
  bytes[at] = (bytes[at] as number) ^ 1;
  return bytes;
};
const flipData = (record: number) => flip(record * FRAME + RECORD_HEADER_BYTES);
const flipLength = (record: number) => flip(record * FRAME);

describe('a scan', () => {
  test('finds one range in an intact file', async () => {
    const path = await file('a');
    expect(await scanFile(path)).toEqual({
      file: path,
      ranges: [{ file: path, offset: 0, records: 10 }],
      records: 10,
      corrupt: [],
      unreachable: 0,
    });
  });

  test('splits a file into ranges of a number of records', async () => {
    const { ranges } = await scanFile(await file('a'), { rangeRecords: 4, verify: false });
    expect(ranges.map(({ offset, records }) => [offset / FRAME, records])).toEqual([
      [0, 4],
      [4, 4],
      [8, 2],
    ]);
  });

  test('skips a record whose data is corrupt', async () => {
    const { ranges, corrupt } = await scanFile(await file('a', flipData(4)));
    expect(ranges.map(({ offset, records }) => [offset / FRAME, records])).toEqual([
      [0, 4],
      [5, 5],
    ]);
    expect(corrupt).toMatchObject([{ offset: 4 * FRAME, reason: expect.stringContaining('data') }]);
  });

  test('finds the next record after a corrupt length', async () => {
    const { ranges, corrupt } = await scanFile(await file('a', flipLength(4)));
    expect(ranges.map(({ offset, records }) => [offset / FRAME, records])).toEqual([
      [0, 4],
      [5, 5],
    ]);
    expect(corrupt).toMatchObject([{ offset: 4 * FRAME, reason: expect.stringContaining('length') }]);
  });

  test('reports a file that ends within a record', async () => {
    const scan = await scanFile(await file('a', (bytes) => bytes.subarray(0, 7 * FRAME + 5)));
    expect(scan.records).toBe(7);
    expect(scan.corrupt).toMatchObject([{ offset: 7 * FRAME, reason: expect.stringContaining('ends') }]);
  });

  test('handles records larger than the read buffer', async () => {
    const path = join(folder, 'large.tfrecord');
    const writer = new TFRecordWriter(path);
    for (const size of [3 << 20, 10, 5 << 20]) await writer.write(Buffer.alloc(size, 7));
    await writer.close();
    for (const verify of [true, false]) expect((await scanFile(path, { verify })).records).toBe(3);
  });

  test('that stops at a corrupt record names file and offset', async () => {
    const path = await file('a', flipData(2));
    await expect(data.scanTFRecords(path, { onCorrupt: 'stop' })).rejects.toThrow(
      `${path}: the data of a record does not match its checksum, at byte ${2 * FRAME}`,
    );
  });
});

describe('a dataset of a scan', () => {
  test('yields all records except the corrupt ones, which are counted', async () => {
    await file('a', flipData(3));
    await file('b', flipLength(0));
    await file('c');
    const scan = await data.scanTFRecords(join(folder, '*.tfrecord'));
    expect(scan).toMatchObject({ records: 28, skipped: 2 });
    expect(await drain(new Graph(), () => data.tfRecord(scan).repeat(2).batch(100))).toEqual([
      Array(2)
        .fill([...words('a', upTo(10, [3])), ...words('b', upTo(10, [0])), ...words('c', upTo(10))])
        .flat(),
    ]);
  });

  test('of a compressed file yields the records before the corrupt one, and reports the others', async () => {
    const path = await file('a', (bytes) => gzipSync(flipData(6)(bytes)));
    expect(gunzipSync(readFileSync(path)).length).toBe(10 * FRAME);
    const scan = await data.scanTFRecords(path, { compression: 'gzip' });
    expect(scan).toMatchObject({ records: 6, skipped: 4, corrupt: [{ offset: 6 * FRAME }] });
    expect(await drain(new Graph(), () => data.tfRecord(scan))).toEqual(words('a', upTo(6)));
  });
});

describe('an error of a run', () => {
  async function explained(make: () => ReturnType<typeof data.tfRecord>): Promise<unknown> {
    const graph = new Graph();
    const error = await drain(graph, () => make().batch(2)).catch((caught: unknown) => caught);
    return explainDataLoss(error, { graph });
  }

  test.each([
    ['data', flipData(5)],
    ['length', flipLength(5)],
  ])('about a corrupt %s is explained with file and offset', async (_what, damage) => {
    await file('a');
    const path = await file('b', damage);
    const error = await explained(() => data.tfRecord(join(folder, '*.tfrecord')));
    expect(error).toMatchObject({
      code: 'SHOAL_CORRUPT',
      message: expect.stringContaining(`at byte ${5 * FRAME}`),
      cause: { code: 'SHOAL_TF_DATA_LOSS' },
    });
    expect((error as Error).message).toContain(path);
  });

  test('is explained for files from a dataset of names', async () => {
    const path = await file('b', flipData(1));
    const error = await explained(() => data.tfRecord(data.files(join(folder, '*.tfrecord')).shard(1, 0)));
    expect((error as Error).message).toContain(`${path}: the data of a record`);
  });

  test('of another kind is unchanged', async () => {
    const error = new Error('another');
    expect(await explainDataLoss(error, { graph: new Graph() })).toBe(error);
  });
});
