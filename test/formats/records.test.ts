/** TFRecords, examples and event files of Shoal and of TensorFlow are interchangeable in both directions. */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readEvents } from '../../src/tensorflow/formats/events/event-reader.js';
import { EventFileWriter } from '../../src/tensorflow/formats/events/event-writer.js';
import { decodeExample, decodeSequenceExample } from '../../src/tensorflow/formats/example/decode.js';
import { encodeExample, encodeSequenceExample } from '../../src/tensorflow/formats/example/encode.js';
import { snappyDecode } from '../../src/tensorflow/formats/sstable/snappy.js';
import { RecordDecoder } from '../../src/tensorflow/formats/tfrecord/decoder.js';
import { readTFRecords } from '../../src/tensorflow/formats/tfrecord/reader.js';
import { TFRecordWriter } from '../../src/tensorflow/formats/tfrecord/writer.js';
import { damaged, expectCoded } from './fuzz.js';
import { oracle, temporaryDirectory } from './oracle.js';

interface Written {
  readonly records: string[];
  readonly example: string;
  readonly sequence: string;
  readonly events: string;
  readonly snappy: string[];
}
type Plain = [kind: string, values: (string | number)[]] | null;
interface Read {
  readonly records: Record<string, string[]>;
  readonly example: Record<string, Plain>;
  readonly context: Record<string, Plain>;
  readonly lists: Record<string, Plain[]>;
  readonly events: [step: number, version: string, tags: string[]][];
  readonly scalars: [step: number, value: number][];
  readonly histogram: number;
}

const COMPRESSIONS = ['none', 'gzip', 'zlib'] as const;
const IDS = [0n, 1n, 127n, 128n, 2n ** 32n, 2n ** 53n + 1n, 2n ** 63n - 1n, -1n, -(2n ** 63n)];
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const hex = (value: string) => Buffer.from(value).toString('hex');

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

let folder: Awaited<ReturnType<typeof temporaryDirectory>>;
let written: Written;
let read: Read;

beforeAll(async () => {
  folder = await temporaryDirectory();
  written = await oracle<Written>('records.py', 'write', folder.path);
  await writeOurs();
  read = await oracle<Read>('records.py', 'read', folder.path);
});
afterAll(() => folder.remove());

async function writeOurs(): Promise<void> {
  const records = await collect(readTFRecords(join(folder.path, 'theirs.none')));
  for (const compression of COMPRESSIONS) {
    await using writer = new TFRecordWriter(join(folder.path, `ours.${compression}`), { compression });
    for (const record of records) await writer.write(record);
  }
  const example = encodeExample({
    label: 1,
    ids: IDS,
    small: Int32Array.of(-1, 2),
    values: new Float32Array([0.5, -2.25, 3e38]),
    names: ['', Uint8Array.of(0, 255), 'Zürich'],
    none: new Float32Array(0),
  });
  await writeFile(join(folder.path, 'ours.example'), example);
  const sequence = encodeSequenceExample({ length: 2n }, { words: [['a', 'b'], 'c'], empty: [] });
  await writeFile(join(folder.path, 'ours.sequence'), sequence);
  await using events = new EventFileWriter({ directory: join(folder.path, 'ours-events'), flushBytes: 100 });
  for (let step = 0; step < 20; step++) {
    events.write({
      step: BigInt(step),
      what: {
        case: 'summary',
        value: { value: [{ tag: 'loss', value: { case: 'simpleValue', value: 1 / (step + 1) } }] },
      },
    });
  }
  const histo = { min: 0, max: 9, num: 10, sum: 45, sumSquares: 285, bucketLimit: [5, 10], bucket: [5, 5] };
  events.write({
    step: 20n,
    what: { case: 'summary', value: { value: [{ tag: 'weights', value: { case: 'histo', value: histo } }] } },
  });
}

describe('TFRecord files', () => {
  test.each(COMPRESSIONS)('written by TensorFlow (%s) are read', async (compression) => {
    const records = await collect(readTFRecords(join(folder.path, `theirs.${compression}`), { compression }));
    expect(records.map(sha256)).toEqual(written.records);
  });

  test.each(COMPRESSIONS)('written by Shoal (%s) are read by TensorFlow', (compression) => {
    expect(read.records[compression]).toEqual(written.records);
  });

  test('written by Shoal are byte-identical to those of TensorFlow', async () => {
    const [theirs, ours] = await Promise.all(
      ['theirs', 'ours'].map((name) => readFile(join(folder.path, `${name}.none`))),
    );
    expect(Buffer.compare(theirs!, ours!)).toBe(0);
  });
});

describe('examples', () => {
  test('built by TensorFlow are parsed', () => {
    const features = decodeExample(Buffer.from(written.example, 'hex'));
    expect({ ...features }).toEqual({
      label: Float32Array.of(1),
      ids: BigInt64Array.from(IDS),
      values: Float32Array.of(0.5, -2.25, 3e38),
      names: ['', '00ff', hex('Zürich')].map((text) => Buffer.from(text, 'hex')),
      nothing: null,
      none: new Float32Array(0),
    });
  });

  test('with sequences built by TensorFlow are parsed', () => {
    const { context, featureLists } = decodeSequenceExample(Buffer.from(written.sequence, 'hex'));
    expect({ ...context }).toEqual({ length: BigInt64Array.of(2n) });
    const words = [['a', 'b'], ['c']].map((step) => step.map((word) => Buffer.from(word)));
    expect({ ...featureLists }).toEqual({ words, empty: [] });
  });

  test('built by Shoal are parsed by TensorFlow', () => {
    expect(read.example).toEqual({
      label: ['float_list', [1]],
      ids: ['int64_list', IDS.map(String)],
      small: ['int64_list', ['-1', '2']],
      values: ['float_list', [0.5, -2.25, Math.fround(3e38)]],
      names: ['bytes_list', ['', '00ff', hex('Zürich')]],
      none: ['float_list', []],
    });
    expect(read.context).toEqual({ length: ['int64_list', ['2']] });
    expect(read.lists).toEqual({
      words: [
        ['bytes_list', [hex('a'), hex('b')]],
        ['bytes_list', [hex('c')]],
      ],
      empty: [],
    });
  });
});

describe('event files', () => {
  test('written by TensorFlow are read', async () => {
    const events = await collect(readEvents(written.events));
    expect(events[0]!.what).toMatchObject({ case: 'fileVersion', value: 'brain.Event:2' });
    const tags = events.flatMap(({ step, what }) =>
      what.case === 'summary' ? what.value.value.map((value) => [Number(step), value.tag]) : [],
    );
    expect(tags).toEqual([...[0, 1, 2, 3, 4].map((step) => [step, 'loss']), [5, 'weights']]);
  });

  test('written by TensorFlow and damaged yield events or a coded error', async () => {
    const bytes = await readFile(written.events);
    const read = async (some: Uint8Array) => {
      const stream = Readable.from([some]) as AsyncIterable<Uint8Array>;
      await collect(readEvents(stream, { onCorrupt: 'skip' })).catch(expectCoded);
    };
    await fc.assert(fc.asyncProperty(damaged(bytes), read));
  });

  test('written by Shoal are read by TensorBoard', () => {
    expect(read.events[0]).toEqual([0, 'brain.Event:2', []]);
    expect(read.events).toHaveLength(22);
    expect(read.scalars).toEqual(
      Array.from({ length: 20 }, (_, step) => [step, Math.fround(1 / (step + 1))]),
    );
    expect(read.histogram).toBe(10);
  });
});

describe('snappy', () => {
  test('blocks compressed by TensorFlow yield records with valid checksums', async () => {
    expect(written.snappy.length).toBeGreaterThan(0);
    let records = 0;
    for (const path of written.snappy) {
      const file = await readFile(path);
      const decoder = new RecordDecoder({ source: basename(path) });
      for (let at = 0; at < file.length; ) {
        const length = file.readUInt32BE(at);
        const block = snappyDecode(file.subarray(at + 4, at + 4 + length), basename(path));
        expect(block.length).toBeGreaterThan(length);
        for (const { data } of decoder.push(block))
          if (Buffer.from(data).includes('record number ')) records++;
        at += 4 + length;
      }
      decoder.end();
    }
    expect(records).toBe(5000);
  });
});
