import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { damaged, valueOrCodedError } from '../../../../test/formats/fuzz.js';
import { crc32c, maskCrc } from '../../../base/bytes/crc32c.js';
import { ByteWriter } from '../../../base/bytes/writer.js';
import { type DecoderOptions, RecordDecoder } from './decoder.js';
import { readTFRecords, type TFRecordReadOptions } from './reader.js';
import { encodeRecord } from './record.js';
import { TFRecordWriter } from './writer.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'shoal-tfrecord-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const texts = ['first', '', 'third'];
const records = texts.map((text) => Buffer.from(text));
const file = Buffer.concat(records.map(encodeRecord));
/** The offset of the second record's frame. */
const SECOND = 12 + 5 + 4;

function decode(bytes: Uint8Array, options: Partial<DecoderOptions> = {}): string[] {
  const decoder = new RecordDecoder({ source: 'f', ...options });
  const found = [...decoder.push(bytes)].map(({ data }) => Buffer.from(data).toString());
  decoder.end();
  return found;
}

async function read(path: string, options?: TFRecordReadOptions): Promise<string[]> {
  const found: string[] = [];
  for await (const record of readTFRecords(path, options)) found.push(Buffer.from(record).toString());
  return found;
}

function changed(at: number): Buffer {
  const bytes = Buffer.from(file);
  bytes[at]! ^= 0x40;
  return bytes;
}

describe('records', () => {
  test('are found however the stream is split into chunks', () => {
    const cuts = fc.array(fc.nat(300), { maxLength: 12 });
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 }), cuts, (all, at) => {
        const bytes = Buffer.concat(all.map(encodeRecord));
        const bounds = [
          0,
          ...at.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b),
          bytes.length,
        ];
        const decoder = new RecordDecoder({ source: 'f' });
        const found = bounds.slice(1).flatMap((end, i) => [...decoder.push(bytes.subarray(bounds[i], end))]);
        decoder.end();
        expect(found.map(({ data }) => Buffer.from(data).toString('hex'))).toEqual(
          all.map((one) => Buffer.from(one).toString('hex')),
        );
        expect(decoder.offset).toBe(bytes.length);
      }),
    );
  });

  test('come with the offset of their frame', () => {
    const found = [...new RecordDecoder({ source: 'f' }).push(file)];
    expect(found.map(({ offset }) => offset)).toEqual([0, SECOND, SECOND + 16]);
  });

  test('with changed data stop the reader with the file and the offset', () => {
    expect(() => decode(changed(13))).toThrow(
      /f: the 5 bytes of a record do not match their checksum, at byte 0/,
    );
  });

  test('with changed data are skipped and counted if requested', () => {
    const decoder = new RecordDecoder({ source: 'f', onCorrupt: 'skip' });
    const found = [...decoder.push(changed(13))].map(({ data }) => Buffer.from(data).toString());
    decoder.end();
    expect(found).toEqual(['', 'third']);
    expect(decoder.skipped).toBe(1);
  });

  test('with a changed length stop the reader even if corrupt ones are skipped', () => {
    for (const onCorrupt of ['throw', 'skip'] as const) {
      expect(() => decode(changed(SECOND), { onCorrupt })).toThrow(/length of a record.*at byte 21/);
    }
  });

  test('that are truncated are an error, skipped, or the end, as configured', () => {
    const cut = file.subarray(0, file.length - 1);
    expect(() => decode(cut)).toThrow(/ends within a record, after 20 of its bytes, at byte 37/);
    expect(decode(cut, { onCorrupt: 'skip' })).toEqual(['first', '']);
    expect(decode(cut, { allowPartialEnd: true })).toEqual(['first', '']);
    expect(() => decode(file.subarray(0, SECOND + 3), { onCorrupt: 'skip' })).toThrow(/ends within/);
  });

  test('of an implausible length are rejected without waiting for their bytes', () => {
    const header = new ByteWriter().fixed64(2n ** 50n);
    header.fixed32(maskCrc(crc32c(header.peek())));
    expect(() => decode(header.take())).toThrow(/a record of 1125899906842624 bytes exceeds/);
  });

  test('in damaged bytes yield values or a coded error, with either policy', () => {
    for (const onCorrupt of ['throw', 'skip'] as const) {
      fc.assert(fc.property(damaged(file), (bytes) => valueOrCodedError(() => decode(bytes, { onCorrupt }))));
      fc.assert(
        fc.property(fc.uint8Array(), (bytes) => valueOrCodedError(() => decode(bytes, { onCorrupt }))),
      );
    }
  });
});

describe('a TFRecord file', () => {
  test.each(['none', 'gzip', 'zlib'] as const)(
    '(%s) round-trips, with large and small records',
    async (compression) => {
      const path = join(folder, `some.${compression}`);
      const all = [...texts, 'x'.repeat(700_000), ...Array.from({ length: 3000 }, (_, i) => `record ${i}`)];
      const writer = new TFRecordWriter(path, { compression });
      for (const text of all) await writer.write(Buffer.from(text));
      await writer.close();
      expect(writer.records).toBe(all.length);
      expect(await read(path, { compression })).toEqual(all);
    },
  );

  test('is written to any stream and read from any', async () => {
    const path = join(folder, 'stream');
    const writer = new TFRecordWriter(createWriteStream(path));
    for (const record of records) await writer.write(record);
    await writer.close();
    const bytes = await readFile(path);
    const found: string[] = [];
    for await (const record of readTFRecords(
      (async function* () {
        for (const byte of bytes) yield Uint8Array.of(byte);
      })(),
    )) {
      found.push(Buffer.from(record).toString());
    }
    expect(found).toEqual(texts);
  });

  test('that is truncated within gzip is corrupt, and so is one that is not gzip', async () => {
    const path = join(folder, 'cut.gz');
    await writeFile(path, gzipSync(file).subarray(0, -10));
    await expect(read(path, { compression: 'gzip' })).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    await writeFile(path, file);
    await expect(read(path, { compression: 'gzip' })).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
  });

  test('that does not exist is an error with its name', async () => {
    await expect(read(join(folder, 'none'))).rejects.toThrow(/no file .*none/);
    await expect(read(join(folder, 'none'), { compression: 'gzip' })).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
    });
  });

  test('reports the number of skipped records', async () => {
    const path = join(folder, 'damaged');
    await writeFile(path, changed(13));
    let skipped = 0;
    expect(await read(path, { onCorrupt: 'skip', onSkipped: (count) => (skipped = count) })).toEqual([
      '',
      'third',
    ]);
    expect(skipped).toBe(1);
  });

  test('may be read partially', async () => {
    const path = join(folder, 'half');
    await writeFile(path, Buffer.concat(Array.from({ length: 100 }, () => file)));
    for await (const record of readTFRecords(path)) {
      expect(Buffer.from(record).toString()).toBe('first');
      break;
    }
  });

  test('on a full disk fails with a code, and again at close', async () => {
    const writer = new TFRecordWriter('/dev/full');
    const fill = async () => {
      for (let i = 0; i < 100; i++) await writer.write(new Uint8Array(100_000));
    };
    await expect(fill()).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
    await expect(writer.close()).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
  });

  test('rejects writes after close', async () => {
    const writer = new TFRecordWriter(join(folder, 'closed'));
    await writer.close();
    await expect(writer.write(new Uint8Array(1))).rejects.toMatchObject({ code: 'SHOAL_DISPOSED' });
  });
});
