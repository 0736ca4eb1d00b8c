import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { damaged, valueOrCodedError } from '../../../../test/formats/fuzz.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import {
  decodeChunks,
  decodeManifest,
  encodeChunks,
  encodeManifest,
  type Manifest,
  type ManifestFile,
  manifestFile,
} from './manifest.js';
import { CHUNK_BYTES } from './shard-image.js';

const text = fc.string({ minLength: 1, maxLength: 20 }).filter((s) => !/[/\0]/.test(s));
const count = fc.nat(Number.MAX_SAFE_INTEGER);

const file: fc.Arbitrary<ManifestFile> = fc
  .record({
    file: text,
    size: fc.nat(5 * CHUNK_BYTES),
    crc32c: fc.nat(0xffffffff),
    places: fc.array(text, { maxLength: 4 }),
    seed: fc.nat(),
  })
  .map(({ seed, ...entry }) => {
    const chunks = Uint32Array.from(
      { length: Math.ceil(entry.size / CHUNK_BYTES) },
      (_, i) => (seed + i * 77) >>> 0,
    );
    return { ...entry, chunks: encodeChunks(chunks) };
  });

const manifest: fc.Arbitrary<Manifest> = fc.record({
  format: fc.constant('shoal-checkpoint' as const),
  version: fc.constant(1 as const),
  sequence: count,
  step: count,
  attempt: fc.stringMatching(/^[a-z0-9-]{4,64}$/),
  prefix: text,
  savedAtMs: count,
  consistency: fc.constantFrom('consistent', 'relaxed', 'imported'),
  chief: fc.record({ task: fc.string(), incarnation: count }),
  shards: count,
  tensors: count,
  files: fc.array(file, { maxLength: 4 }),
  input: fc.constantFrom(null, { epoch: 3, files: ['a', 'b'] }, 'ü\u2028\n'),
});

const [sample] = fc.sample(manifest, { numRuns: 1, seed: 4 });
const bytes = encodeManifest({ ...sample!, files: [manifestFile('a.index', Buffer.from('abc'), ['ps/0'])] });
const decode = (given: Uint8Array) => decodeManifest(given, 'a blob');
const sealed = (line: string) =>
  Buffer.from(`${line}\n${crc32c(Buffer.from(line)).toString(16).padStart(8, '0')}\n`);

describe('a manifest', () => {
  it('round-trips', () => {
    fc.assert(
      fc.property(manifest, (given) => {
        expect(decode(encodeManifest(given))).toEqual(given);
      }),
    );
  });

  it('is rejected with any byte changed', () => {
    for (let at = 0; at < bytes.length; at++) {
      for (const change of [0x01, 0x20, 0x80, 0xff]) {
        const other = Uint8Array.from(bytes);
        other[at]! ^= change;
        expect(() => decode(other), `byte ${at} ^ ${change}`).toThrow(
          expect.objectContaining({ code: 'SHOAL_CORRUPT' }),
        );
      }
    }
  });

  it('is rejected when truncated anywhere or followed by extra bytes', () => {
    for (let length = 0; length < bytes.length; length++) {
      expect(() => decode(bytes.subarray(0, length)), `${length} bytes`).toThrow(
        expect.objectContaining({ code: 'SHOAL_CORRUPT' }),
      );
    }
    for (const tail of ['\n', ' ', '\0', '{}\n']) {
      expect(() => decode(Buffer.concat([bytes, Buffer.from(tail)]))).toThrow(
        expect.objectContaining({ code: 'SHOAL_CORRUPT' }),
      );
    }
  });

  it('yields a value or a coded error for damaged bytes', () => {
    fc.assert(
      fc.property(damaged(bytes), (given) => valueOrCodedError(() => decode(given))),
      { numRuns: 2000 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (given) => valueOrCodedError(() => decode(given))),
    );
  });

  it('yields a value or a coded error for any JSON with a valid checksum', () => {
    fc.assert(fc.property(fc.json(), (line) => valueOrCodedError(() => decode(sealed(line)))));
    fc.assert(fc.property(fc.string(), (line) => valueOrCodedError(() => decode(sealed(line)))));
    const fields = JSON.parse(bytes.toString().split('\n')[0]!) as Record<string, unknown>;
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(fields)), fc.jsonValue(), (key, value) =>
        valueOrCodedError(() => decode(sealed(JSON.stringify({ ...fields, [key]: value })))),
      ),
    );
  });

  it('cannot name a file outside its directory, nor have checksums for another size', () => {
    const entry = manifestFile('a.index', Buffer.from('abc'), []);
    const refused = [
      { ...entry, file: '../a.index' },
      { ...entry, file: '/etc/passwd' },
      { ...entry, file: '' },
      { ...entry, size: CHUNK_BYTES + 1 },
      { ...entry, chunks: '' },
      { ...entry, chunks: 'not base64!' },
    ];
    for (const other of refused) {
      const line = encodeManifest({ ...sample!, files: [other] });
      expect(() => decode(line), JSON.stringify(other)).toThrow(
        expect.objectContaining({ code: 'SHOAL_CORRUPT' }),
      );
    }
  });

  it('has the checksum of every chunk', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(0xffffffff), { maxLength: 40 }), (sums) => {
        const size = sums.length * CHUNK_BYTES;
        const entry = {
          file: 'f',
          size,
          crc32c: 0,
          chunks: encodeChunks(Uint32Array.from(sums)),
          places: [],
        };
        expect([...decodeChunks(entry)]).toEqual(sums);
      }),
    );
    const large = Buffer.alloc(2 * CHUNK_BYTES + 5, 'shoal');
    const entry = manifestFile('f', large, []);
    expect([...decodeChunks(entry)]).toEqual([
      crc32c(large.subarray(0, CHUNK_BYTES)),
      crc32c(large.subarray(CHUNK_BYTES, 2 * CHUNK_BYTES)),
      crc32c(large.subarray(2 * CHUNK_BYTES)),
    ]);
    expect(entry).toMatchObject({ size: large.length, crc32c: crc32c(large) });
  });
});
