import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { described } from '../../../../test/described.js';
import { damaged, expectCoded, valueOrCodedError } from '../../../../test/formats/fuzz.js';
import { compareBytes } from '../../../base/bytes/compare.js';
import { ByteReader } from '../../../base/bytes/reader.js';
import { ByteWriter } from '../../../base/bytes/writer.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { DataType } from '../../../base/proto/generated/graph_pb.js';
import type { RangeReader } from '../range-reader.js';
import { Table } from '../sstable/table.js';
import { TableWriter } from '../sstable/table-writer.js';
import { type BundleIndex, mergeBundleIndexes } from './bundle-index.js';
import { BundleReader } from './bundle-reader.js';
import { readIndexFile, writeIndexFile } from './index-file.js';
import { dataFile, indexFile, parseDataFile } from './naming.js';
import { readSigned, readUnsigned, writeSigned, writeUnsigned } from './ordered-code.js';
import { sharedRuns } from './regions.js';
import { BundleShardWriter } from './shard-writer.js';
import {
  type Box,
  elementCount,
  formatShapeAndSlice,
  parseShapeAndSlice,
  type TensorSlice,
} from './slice.js';
import { decodeSliceKey, encodeSliceKey } from './slice-key.js';
import { decodeStrings } from './string-layout.js';

const FLOAT = DataType.DT_FLOAT;
const INT64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });

class MemoryFiles implements RangeReader {
  readonly files = new Map<string, Uint8Array>();
  /** Every read, as file and length. */
  readonly reads: [string, number][] = [];

  async size(file: string): Promise<number> {
    return this.#file(file).length;
  }

  async read(file: string, offset: number, length: number): Promise<Uint8Array> {
    this.reads.push([file, length]);
    const bytes = this.#file(file).slice(offset, offset + length);
    if (bytes.length < length) throw new ShoalError('SHOAL_CORRUPT', `${file} is too short`);
    return bytes;
  }

  #file(name: string): Uint8Array {
    const bytes = this.files.get(name);
    if (!bytes) throw new ShoalError('SHOAL_NOT_FOUND', `there is no ${name}`);
    return bytes;
  }
}

type Fill = (writer: BundleShardWriter) => Promise<void>;

/** A bundle in memory with a shard for each function. */
async function bundle(...shards: Fill[]): Promise<{ files: MemoryFiles; index: BundleIndex }> {
  const files = new MemoryFiles();
  const indexes: BundleIndex[] = [];
  for (const [shard, fill] of shards.entries()) {
    const chunks: Uint8Array[] = [];
    const writer = new BundleShardWriter({ write: (chunk) => void chunks.push(chunk.slice()) });
    await fill(writer);
    indexes.push((await writer.finish()).index);
    files.files.set(dataFile('m', shard, shards.length), Buffer.concat(chunks));
  }
  const index = mergeBundleIndexes(indexes);
  files.files.set(indexFile('m'), writeIndexFile(index));
  return { files, index };
}

const floats = (count: number) => Float32Array.from({ length: count }, (_, i) => i);
const bytesOf = (values: Float32Array) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
const floatsOf = (bytes: Uint8Array) => new Float32Array(Uint8Array.from(bytes).buffer);

describe('the order-preserving code', () => {
  const encode = (value: bigint) => {
    const writer = new ByteWriter();
    writeSigned(writer, value);
    return writer.take();
  };

  test('has the known bytes of known numbers', () => {
    expect(Buffer.from(encode(0x424242n)).toString('hex')).toBe('f0424242');
    expect(Buffer.from(encode(-0x800n)).toString('hex')).toBe('3800');
    expect(Buffer.from(encode(-1n)).toString('hex')).toBe('7f');
    expect(encode(2n ** 63n - 1n)).toHaveLength(10);
  });

  test('keeps the order of signed numbers and round-trips', () => {
    fc.assert(
      fc.property(INT64, INT64, (a, b) => {
        expect(readSigned(new ByteReader(encode(a), 'test'), 'a number')).toBe(a);
        expect(Math.sign(compareBytes(encode(a), encode(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
      }),
    );
  });

  test('round-trips unsigned numbers', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => {
        const writer = new ByteWriter();
        writeUnsigned(writer, value);
        expect(readUnsigned(new ByteReader(writer.take(), 'test'), 'a count')).toBe(value);
      }),
    );
  });

  test('round-trips the name and slice of a key', () => {
    const extent = fc.oneof(
      fc.constant('all' as const),
      fc.record({ start: fc.maxSafeNat(), length: fc.maxSafeNat() }),
    );
    const slice = fc.array(extent, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), slice, (name, one) => {
        const key = encodeSliceKey(name, one);
        expect(decodeSliceKey(new ByteReader(key, 'test'))).toEqual({ name, slice: one });
      }),
    );
  });

  test('of any bytes yields a key or a coded error', () => {
    const decode = (bytes: Uint8Array) =>
      valueOrCodedError(() => decodeSliceKey(new ByteReader(bytes, 'test')));
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), decode));
    fc.assert(
      fc.property(damaged(encodeSliceKey('model/weights', [{ start: 5, length: 300 }, 'all'])), decode),
    );
  });
});

describe('slices', () => {
  test('are written and parsed as TensorFlow spells them', () => {
    const slice: TensorSlice = [{ start: 0, length: 10 }, 'all'];
    expect(formatShapeAndSlice([30, 2], slice)).toBe('30 2 0,10:-');
    expect(parseShapeAndSlice('30 2 0,10:-')).toEqual({ shape: [30, 2], slice });
    for (const wrong of ['', '30', '30 x', '30 2 0,10', '30 2 25,10:-', 'a 2 -:-']) {
      expect(() => parseShapeAndSlice(wrong)).toThrow(ShoalError);
    }
  });

  const boxes = fc
    .array(fc.nat(6), { minLength: 0, maxLength: 4 })
    .chain((shape) => fc.record({ shape: fc.constant(shape), a: boxIn(shape), b: boxIn(shape) }));

  test('share their common elements as ordered runs', () => {
    fc.assert(
      fc.property(boxes, ({ shape, a, b }) => {
        const whole = floats(elementCount(shape));
        const source = cutOut(whole, shape, a);
        const target = new Float32Array(elementCount(b.lengths)).fill(-1);
        let from = -1;
        let to = -1;
        for (const run of sharedRuns(a, b)) {
          expect(run.from).toBeGreaterThan(from);
          expect(run.to).toBeGreaterThan(to);
          target.set(source.subarray(run.from, run.from + run.count), run.to);
          from = run.from;
          to = run.to;
        }
        const inA = new Set(source);
        expect(target).toEqual(cutOut(whole, shape, b).map((value) => (inA.has(value) ? value : -1)));
      }),
    );
  });
});

function boxIn(shape: readonly number[]): fc.Arbitrary<Box> {
  const extents = shape.map((size) =>
    fc.tuple(fc.nat(size), fc.nat(size)).map(([x, y]) => [Math.min(x, y), Math.abs(x - y)]),
  );
  return fc
    .tuple(...extents)
    .map((all) => ({ starts: all.map(([s]) => s!), lengths: all.map(([, l]) => l!) }));
}

/** The elements of a region, one by one. */
function cutOut(whole: Float32Array, shape: readonly number[], box: Box): Float32Array {
  const inside = whole.filter((_, flat) => {
    let rest = flat;
    for (let d = shape.length - 1; d >= 0; d--) {
      const at = (rest % shape[d]!) - box.starts[d]!;
      if (at < 0 || at >= box.lengths[d]!) return false;
      rest = Math.floor(rest / shape[d]!);
    }
    return true;
  });
  return inside;
}

describe('a bundle', () => {
  test('reads any slice of a tensor saved in any grid of slices', async () => {
    const cuts = fc.uniqueArray(fc.integer({ min: 1, max: 6 }), { maxLength: 3 });
    const cases = fc.record({ rows: cuts, columns: cuts, wanted: boxIn([7, 7]), verify: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(cases, async ({ rows, columns, wanted, verify }) => {
        const whole = floats(49);
        const pieces = grid([0, ...rows.sort(), 7], [0, ...columns.sort(), 7]);
        const { files } = await bundle(
          ...pieces.map(
            (box): Fill =>
              async (writer) => {
                const slice = box.starts.map((start, d) => ({ start, length: box.lengths[d]! }));
                await writer.add(
                  't',
                  { dtype: FLOAT, shape: [7, 7], slice },
                  bytesOf(cutOut(whole, [7, 7], box)),
                );
              },
          ),
        );
        const slice = wanted.starts.map((start, d) => ({ start, length: wanted.lengths[d]! }));
        const bytes = await (await BundleReader.open(files, 'm')).read('t', { slice, verify });
        expect(floatsOf(bytes)).toEqual(cutOut(whole, [7, 7], wanted));
      }),
    );
  });

  function grid(rows: number[], columns: number[]): Box[] {
    return rows.slice(1).flatMap((rowEnd, i) =>
      columns.slice(1).map((columnEnd, j) => ({
        starts: [rows[i]!, columns[j]!],
        lengths: [rowEnd - rows[i]!, columnEnd - columns[j]!],
      })),
    );
  }

  test('does not depend on how the bytes are split into chunks', async () => {
    const data = bytesOf(floats(100_000));
    const whole = await bundle((writer) => writer.add('t', { dtype: FLOAT, shape: [100_000] }, data));
    for (const step of [1000, 70_000, 399_999]) {
      const chunks = Array.from({ length: Math.ceil(data.length / step) }, (_, i) =>
        data.subarray(i * step, (i + 1) * step),
      );
      const cut = await bundle((writer) => writer.add('t', { dtype: FLOAT, shape: [100_000] }, chunks));
      expect(cut.index).toEqual(whole.index);
      const same = [...whole.files.files].map(([name, bytes]) =>
        Buffer.compare(cut.files.files.get(name)!, bytes),
      );
      expect(same).toEqual([0, 0]);
    }
  });

  test('larger than a chunk is read in bounded reads, directly into the target', async () => {
    const count = 5_000_000;
    const data = floats(count);
    const { files } = await bundle((writer) =>
      writer.add('t', { dtype: FLOAT, shape: [count] }, bytesOf(data)),
    );
    const into = new Uint8Array(count * 4);
    const read = await (await BundleReader.open(files, 'm')).read('t', { into });
    expect(read).toBe(into);
    expect(Buffer.compare(into, bytesOf(data))).toBe(0);
    expect(Math.max(...files.reads.map(([, length]) => length))).toBeLessThanOrEqual(8 << 20);
  });

  test('reads only the requested ranges without verification', async () => {
    const { files } = await bundle((writer) =>
      writer.add('t', { dtype: FLOAT, shape: [1000, 100] }, bytesOf(floats(100_000))),
    );
    const reader = await BundleReader.open(files, 'm');
    files.reads.length = 0;
    await reader.read('t', { slice: [{ start: 10, length: 5 }, 'all'], verify: false });
    expect(files.reads).toEqual([[dataFile('m', 0, 1), 2000]]);
  });

  test('rejects a tensor that does not match its checksum', async () => {
    const { files } = await bundle((writer) =>
      writer.add('t', { dtype: FLOAT, shape: [10] }, bytesOf(floats(10))),
    );
    files.files.get(dataFile('m', 0, 1))![7]! ^= 1;
    const reader = await BundleReader.open(files, 'm');
    await expect(reader.read('t')).rejects.toThrow(/m\.data-00000-of-00001: t does not match its checksum/);
    await expect(reader.verify('t')).rejects.toThrow(/checksum/);
  });

  test('rejects a truncated data file before it allocates', async () => {
    const { files } = await bundle((writer) =>
      writer.add('t', { dtype: FLOAT, shape: [10] }, bytesOf(floats(10))),
    );
    files.files.set(dataFile('m', 0, 1), new Uint8Array(39));
    await expect((await BundleReader.open(files, 'm')).read('t')).rejects.toThrow(
      /ends at byte 40, the file at 39/,
    );
  });

  test('lists similar names for a missing tensor', async () => {
    const { files } = await bundle((writer) =>
      writer.add('model/w', { dtype: FLOAT, shape: [] }, bytesOf(floats(1))),
    );
    const reader = await BundleReader.open(files, 'm');
    await expect(reader.read('w')).rejects.toThrow(described(/has no tensor named w\n.*model\/w/));
  });

  test('with a missing slice is an error', async () => {
    const { files } = await bundle((writer) =>
      writer.add('t', { dtype: FLOAT, shape: [4], slice: [{ start: 0, length: 2 }] }, bytesOf(floats(2))),
    );
    const reader = await BundleReader.open(files, 'm');
    await expect(reader.read('t')).rejects.toThrow(/slices of t do not cover/);
    expect(floatsOf(await reader.read('t', { slice: [{ start: 0, length: 2 }] }))).toEqual(floats(2));
  });

  test('does not save a tensor, or a slice, twice', async () => {
    const add: Fill = (writer) => writer.add('t', { dtype: FLOAT, shape: [2] }, bytesOf(floats(2)));
    await expect(bundle(add, add)).rejects.toThrow(/t is saved twice/);
    const slice: Fill = (writer) =>
      writer.add('t', { dtype: FLOAT, shape: [2], slice: [{ start: 0, length: 1 }] }, bytesOf(floats(1)));
    await expect(bundle(slice, slice)).rejects.toThrow(/t is saved twice/);
  });

  test('rejects too few or too many bytes, and all later calls', async () => {
    const writer = new BundleShardWriter({ write: () => undefined });
    await expect(writer.add('t', { dtype: FLOAT, shape: [3] }, new Uint8Array(11))).rejects.toThrow(
      /has 12 bytes; got 11/,
    );
    await expect(writer.finish()).rejects.toThrow(/it is broken/);
  });

  test('propagates the error of its sink', async () => {
    const full = new ShoalError('SHOAL_NO_SPACE', 'the disk is full');
    const writer = new BundleShardWriter({
      write: () => {
        throw full;
      },
    });
    const adding = writer.add('t', { dtype: FLOAT, shape: [100_000] }, bytesOf(floats(100_000)));
    await expect(adding).rejects.toBe(full);
  });

  test('stops reading when its signal fires', async () => {
    const { files } = await bundle((writer) =>
      writer.add('t', { dtype: FLOAT, shape: [10] }, bytesOf(floats(10))),
    );
    const reader = await BundleReader.open(files, 'm');
    await expect(reader.read('t', { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'SHOAL_ABORTED',
    });
  });
});

describe('an index', () => {
  async function goodIndex(): Promise<Uint8Array> {
    const { files } = await bundle(
      async (writer) => {
        await writer.add(
          'w',
          { dtype: FLOAT, shape: [4, 2], slice: [{ start: 0, length: 2 }, 'all'] },
          bytesOf(floats(4)),
        );
        await writer.addStrings('words', { shape: [2] }, ['a', 'bc']);
      },
      async (writer) => {
        await writer.add(
          'w',
          { dtype: FLOAT, shape: [4, 2], slice: [{ start: 2, length: 2 }, 'all'] },
          bytesOf(floats(4)),
        );
        await writer.add('step', { dtype: DataType.DT_INT64, shape: [] }, new Uint8Array(8));
      },
    );
    return files.files.get(indexFile('m'))!;
  }

  test('round-trips', async () => {
    const bytes = await goodIndex();
    const index = readIndexFile(bytes, 'm.index');
    expect(index.shards).toBe(2);
    expect([...index.tensors.keys()]).toEqual(['step', 'w', 'words']);
    expect(index.tensors.get('w')!.pieces.map((piece) => piece.shard)).toEqual([0, 1]);
    expect(Buffer.compare(writeIndexFile(index), bytes)).toBe(0);
  });

  test('damaged anywhere yields an index or a coded error', async () => {
    const good = await goodIndex();
    fc.assert(
      fc.property(damaged(good), (bytes) => valueOrCodedError(() => readIndexFile(bytes, 'm.index'))),
      { numRuns: 300 },
    );
  });

  test('with damaged entries and valid checksums yields an index or a coded error', async () => {
    const entries = [...new Table(await goodIndex(), 'm.index').entries()];
    const which = fc.nat(entries.length - 1);
    fc.assert(
      fc.property(
        which.chain((i) => fc.tuple(fc.constant(i), damaged(entries[i]!.value))),
        ([changed, value]) => {
          const table = new TableWriter();
          for (const [i, entry] of entries.entries())
            table.add(entry.key, i === changed ? value : entry.value);
          const bytes = table.finish();
          valueOrCodedError(() => readIndexFile(bytes, 'm.index'));
        },
      ),
      { numRuns: 1000 },
    );
  });

  test('damaged in any way never makes a read crash or allocate beyond the files', async () => {
    const { files } = await bundle((writer) =>
      writer.add('t', { dtype: FLOAT, shape: [64] }, bytesOf(floats(64))),
    );
    const entries = [...new Table(files.files.get(indexFile('m'))!, 'm.index').entries()];
    await fc.assert(
      fc.asyncProperty(damaged(entries[1]!.value), async (value) => {
        const table = new TableWriter();
        table.add(entries[0]!.key, entries[0]!.value);
        table.add(entries[1]!.key, value);
        files.files.set(indexFile('m'), table.finish());
        try {
          const reader = await BundleReader.open(files, 'm');
          if (reader.tensor('t').dtype !== DataType.DT_STRING) await reader.read('t');
          else await reader.readStrings('t');
        } catch (error) {
          if ((error as ShoalError).code !== 'SHOAL_INVALID_ARGUMENT') expectCoded(error);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('strings', () => {
  test('damaged anywhere yield strings or a coded error', async () => {
    const { files } = await bundle((writer) =>
      writer.addStrings('s', { shape: [3] }, ['', 'abc', 'x'.repeat(200)]),
    );
    const good = files.files.get(dataFile('m', 0, 1))!;
    fc.assert(
      fc.property(damaged(good), (bytes) => valueOrCodedError(() => decodeStrings(bytes, 3, 'test'))),
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 50 }), fc.nat(2 ** 31), (bytes, count) =>
        valueOrCodedError(() => decodeStrings(bytes, count, 'test')),
      ),
    );
  });

  test('with a changed byte do not match their checksum', async () => {
    const { files } = await bundle((writer) => writer.addStrings('s', { shape: [2] }, ['abc', 'def']));
    files.files.get(dataFile('m', 0, 1))![8]! ^= 1;
    await expect((await BundleReader.open(files, 'm')).readStrings('s')).rejects.toThrow(
      /s does not match its checksum/,
    );
  });
});

test('formats and parses the names of data files', () => {
  expect(dataFile('dir/model.ckpt-7', 1, 12)).toBe('dir/model.ckpt-7.data-00001-of-00012');
  expect(parseDataFile('dir/model.ckpt-7.data-00001-of-00012')).toEqual({
    prefix: 'dir/model.ckpt-7',
    shard: 1,
    shards: 12,
  });
  expect(parseDataFile('model.ckpt-7.index')).toBeUndefined();
  expect(() => dataFile('m', 2, 2)).toThrow(/invalid shard 2 of 2/);
});
