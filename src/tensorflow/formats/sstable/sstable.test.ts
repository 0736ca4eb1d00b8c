import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { damaged, valueOrCodedError } from '../../../../test/formats/fuzz.js';
import { compareBytes } from '../../../base/bytes/compare.js';
import { ByteWriter } from '../../../base/bytes/writer.js';
import { blockCrc, TRAILER_BYTES } from './layout.js';
import { snappyDecode } from './snappy.js';
import { Table } from './table.js';
import { TableWriter } from './table-writer.js';

type Entries = readonly (readonly [key: Uint8Array, value: Uint8Array])[];

function build(entries: Entries): Uint8Array {
  const writer = new TableWriter();
  for (const [key, value] of entries) writer.add(key, value);
  return writer.finish();
}

function read(bytes: Uint8Array): [Uint8Array, Uint8Array][] {
  return [...new Table(bytes, 'test.index').entries()].map(({ key, value }) => [key, Uint8Array.from(value)]);
}

/** A form that is fast to compare and to print, unlike typed arrays. */
const hex = (entries: Entries) =>
  entries.map((pair) => pair.map((part) => Buffer.from(part).toString('hex')).join(' '));
const text = (value: string) => new TextEncoder().encode(value);
const numbered = (count: number, valueBytes: number): Entries =>
  Array.from({ length: count }, (_, i) => [
    text(`layer/${String(i).padStart(7, '0')}`),
    new Uint8Array(valueBytes).fill(i),
  ]);

/** Fixes the checksum of a table's only data block, so that damage inside it reaches the parser. */
function repairFirstBlock(bytes: Uint8Array, size: number): Uint8Array {
  const repaired = Uint8Array.from(bytes);
  const crc = blockCrc(repaired.subarray(0, size), 0);
  new DataView(repaired.buffer).setUint32(size + 1, crc, true);
  return repaired;
}

/** The simplest snappy encoding: one literal. */
function literalSnappy(content: Uint8Array): Uint8Array {
  const writer = new ByteWriter().varint(content.length);
  if (content.length > 0)
    writer
      .u8(62 << 2)
      .u8(content.length - 1)
      .u8((content.length - 1) >> 8)
      .u8((content.length - 1) >> 16);
  return writer.bytes(content).take();
}

describe('a table', () => {
  test('round-trips any entries in order', () => {
    const entries = fc
      .uniqueArray(fc.tuple(fc.uint8Array({ maxLength: 12 }), fc.uint8Array({ maxLength: 40 })), {
        selector: ([key]) => Buffer.from(key).toString('hex'),
      })
      .map((all) => all.sort(([a], [b]) => compareBytes(a, b)));
    fc.assert(
      fc.property(entries, (all) => {
        expect(hex(read(build(all)))).toEqual(hex(all));
      }),
    );
  });

  test('of many blocks round-trips, with entries larger than a block', () => {
    const entries = [
      ...numbered(9000, 60),
      [text('m'), new Uint8Array(600_000)],
      [text('n'), new Uint8Array(5)],
    ] as const;
    const bytes = build(entries);
    expect(bytes.length).toBeGreaterThan(1_000_000);
    expect(hex(read(bytes))).toEqual(hex(entries));
  });

  test('rejects keys that are not in ascending order', () => {
    const writer = new TableWriter();
    writer.add(text('b'), text(''));
    expect(() => writer.add(text('b'), text(''))).toThrow(/ascending/);
    expect(() => writer.add(text('a'), text(''))).toThrow(/ascending/);
  });

  test('with a flipped bit in a block is rejected with the offset of the block', () => {
    const flipped = build(numbered(40, 8));
    flipped[10]! ^= 4;
    expect(() => read(flipped)).toThrow(/test\.index: the block at 0 does not match its checksum/);
  });

  test('of any bytes, or damaged anywhere, yields entries or a coded error', () => {
    const good = build(numbered(40, 8));
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => valueOrCodedError(() => read(bytes))),
    );
    fc.assert(
      fc.property(damaged(good), (bytes) => valueOrCodedError(() => read(bytes))),
      { numRuns: 500 },
    );
  });

  test('damaged in a block with a valid checksum yields entries or a coded error', () => {
    const good = build(numbered(40, 8));
    const size = firstBlockSize(good);
    const block = damaged(good.subarray(0, size)).filter((bytes) => bytes.length === size);
    fc.assert(
      fc.property(block, (bytes) => {
        const file = Uint8Array.from(good);
        file.set(bytes);
        valueOrCodedError(() => read(repairFirstBlock(file, size)));
      }),
      { numRuns: 500 },
    );
  });

  test('whose keys expand to far more than the file is rejected in bounded memory', () => {
    // Each key repeats the previous one and adds a byte: n entries of 4 bytes expand to n²/2 bytes.
    const block = new ByteWriter();
    const count = 60_000;
    for (let i = 0; i < count; i++) block.varint(i).varint(1).varint(0).u8(1);
    block.fixed32(0).fixed32(1);
    expect(() => read(tableOf(block.take(), 0))).toThrow(/unfold/);
  });

  test('with a snappy block returns the entries of the block', () => {
    const plain = build(numbered(40, 8));
    const block = plain.subarray(0, firstBlockSize(plain));
    expect(hex(read(tableOf(literalSnappy(block), 1)))).toEqual(hex(numbered(40, 8)));
  });
});

function firstBlockSize(bytes: Uint8Array): number {
  // Data block, then the metaindex block of 8 bytes, then the index block: found by its checksum.
  for (let size = 8; size < bytes.length - TRAILER_BYTES; size++) {
    const crc = new DataView(bytes.buffer, bytes.byteOffset).getUint32(size + 1, true);
    if (bytes[size] === 0 && crc === blockCrc(bytes.subarray(0, size), 0)) return size;
  }
  throw new Error('the table has no data block');
}

/** A table with the given data block, and keys up to `layer0` or all bytes 0xff. */
function tableOf(block: Uint8Array, compression: number): Uint8Array {
  const file = new ByteWriter().bytes(block).u8(compression).fixed32(blockCrc(block, compression));
  const meta = file.length;
  const empty = new ByteWriter().fixed32(0).fixed32(1).take();
  file.bytes(empty).u8(0).fixed32(blockCrc(empty, 0));
  const handle = new ByteWriter().varint(0).varint(block.length).take();
  const index = new ByteWriter()
    .varint(0)
    .varint(1)
    .varint(handle.length)
    .u8(0xff)
    .bytes(handle)
    .fixed32(0)
    .fixed32(1)
    .take();
  const indexAt = file.length;
  file.bytes(index).u8(0).fixed32(blockCrc(index, 0));
  const footer = new ByteWriter().varint(meta).varint(empty.length).varint(indexAt).varint(index.length);
  footer.bytes(new Uint8Array(40 - footer.length)).fixed64(0xdb4775248b80fb57n);
  return file.bytes(footer.take()).take();
}

describe('snappy', () => {
  test('copies repeat earlier bytes, also overlapping themselves', () => {
    // "ab", then 10 bytes from 2 back, then 4 bytes from 12 back with a distance of two bytes.
    const input = Uint8Array.of(16, 1 << 2, 0x61, 0x62, ((10 - 4) << 2) | 1, 2, (3 << 2) | 2, 12, 0);
    expect(Buffer.from(snappyDecode(input, 'test')).toString()).toBe('abababababababab');
  });

  test('that declares an impossible length is rejected before it is allocated', () => {
    const input = new ByteWriter()
      .varint(2 ** 40)
      .u8(0)
      .u8(1)
      .take();
    expect(() => snappyDecode(input, 'test')).toThrow(/cannot hold/);
  });

  test('of any bytes yields bytes or a coded error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) =>
        valueOrCodedError(() => snappyDecode(bytes, 'test')),
      ),
    );
    const good = literalSnappy(new Uint8Array(300).fill(3));
    fc.assert(fc.property(damaged(good), (bytes) => valueOrCodedError(() => snappyDecode(bytes, 'test'))));
  });
});
