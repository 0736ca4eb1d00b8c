import { crc32c as nativeCrc32c } from '@node-rs/crc32';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isShoalError } from '../errors/errors.js';
import { crc32c, maskCrc, unmaskCrc } from './crc32c.js';
import { ByteReader } from './reader.js';
import { putVarint, varintLength } from './varint.js';
import { ByteWriter } from './writer.js';

const UINT64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });

describe('crc32c', () => {
  test('returns the check value of the polynomial', () => {
    expect(crc32c(new TextEncoder().encode('123456789'))).toBe(0xe3069283);
  });

  test('is the same from the table and from native code', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 32 }), fc.nat(0xffffffff), (bytes, seed) => {
        expect(crc32c(bytes, seed)).toBe(nativeCrc32c(bytes, seed));
      }),
    );
  });

  test('continues from a previous crc', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(200), (bytes, cut) => {
        expect(crc32c(bytes.subarray(cut), crc32c(bytes.subarray(0, cut)))).toBe(crc32c(bytes));
      }),
    );
  });

  test('unmask inverts mask', () => {
    expect(maskCrc(0)).toBe(0xa282ead8);
    fc.assert(fc.property(fc.nat(0xffffffff), (crc) => unmaskCrc(maskCrc(crc)) === crc));
  });
});

describe('varints', () => {
  test('are encoded identically from a number and from a bigint', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => {
        const a = new Uint8Array(10);
        const b = new Uint8Array(10);
        expect(putVarint(a, 0, value)).toBe(putVarint(b, 0, BigInt(value)));
        expect(a).toEqual(b);
        expect(varintLength(value)).toBe(varintLength(BigInt(value)));
      }),
    );
  });

  test('round-trip', () => {
    fc.assert(
      fc.property(fc.array(UINT64), (values) => {
        const writer = new ByteWriter(0);
        for (const value of values) writer.varint(value);
        expect(writer.length).toBe(values.reduce((sum, value) => sum + varintLength(value), 0));
        const reader = new ByteReader(writer.take(), 'test');
        expect(values.map(() => reader.bigVarint())).toEqual(values);
        expect(reader.remaining).toBe(0);
      }),
    );
  });

  test('of negative numbers are ten bytes of two’s complement', () => {
    const bytes = new ByteWriter().varint(-2n).take();
    expect(bytes.length).toBe(10);
    expect(BigInt.asIntN(64, new ByteReader(bytes, 'test').bigVarint())).toBe(-2n);
  });

  test('reject fractions, negative and too large numbers', () => {
    for (const bad of [-1, 0.5, Number.NaN, 2 ** 53]) {
      expect(() => new ByteWriter().varint(bad)).toThrow(/varint/);
    }
  });

  test('too large for a safe integer are corrupt as a length', () => {
    const bytes = new ByteWriter().varint(2n ** 53n).take();
    expect(() => new ByteReader(bytes, 'file').varint('a length')).toThrow(/file: a length is larger/);
    expect(new ByteReader(new ByteWriter().varint(2n ** 53n - 1n).take(), 'file').varint()).toBe(2 ** 53 - 1);
  });
});

describe('a writer and a reader', () => {
  test('agree on every kind of value', () => {
    const bytes = new ByteWriter(1)
      .u8(7)
      .fixed32(0xdeadbeef)
      .fixed64(0x0123456789abcdefn)
      .utf8('Zürich 魚')
      .bytes(Uint8Array.of(1, 2, 3))
      .take();
    const reader = new ByteReader(bytes, 'test');
    expect(reader.u8()).toBe(7);
    expect(reader.fixed32()).toBe(0xdeadbeef);
    expect(reader.fixed64()).toBe(0x0123456789abcdefn);
    expect(reader.utf8(11)).toBe('Zürich 魚');
    expect(reader.take(3)).toEqual(Uint8Array.of(1, 2, 3));
    expect(reader.remaining).toBe(0);
  });

  test('any reads of any bytes return values or throw a ShoalError', () => {
    const step = fc.constantFrom('u8', 'fixed32', 'fixed64', 'varint', 'bigVarint', 'utf8', 'take', 'sub');
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), fc.array(step), fc.nat(20), (bytes, steps, count) => {
        const reader = new ByteReader(bytes, 'test');
        try {
          for (const name of steps) {
            if (name === 'sub') reader.sub(count, 'part');
            else if (name === 'utf8' || name === 'take') reader[name](count);
            else reader[name as 'u8']();
          }
        } catch (error) {
          expect(isShoalError(error, 'SHOAL_CORRUPT')).toBe(true);
        }
        expect(reader.offset).toBeLessThanOrEqual(bytes.length);
      }),
    );
  });

  test('a length prefix is correct for any length', () => {
    for (const size of [0, 1, 127, 128, 16_383, 16_384, 100_000]) {
      const content = new Uint8Array(size).fill(7);
      const bytes = new ByteWriter(0)
        .u8(9)
        .lengthPrefixed((writer) => writer.bytes(content))
        .u8(8)
        .take();
      const reader = new ByteReader(bytes, 'test', 1);
      expect(reader.take(reader.varint())).toEqual(content);
      expect(reader.u8()).toBe(8);
    }
  });

  test('a writer is empty after its bytes were taken', () => {
    const writer = new ByteWriter().u8(1);
    const first = writer.take();
    writer.u8(2);
    expect(first).toEqual(Uint8Array.of(1));
    expect(writer.take()).toEqual(Uint8Array.of(2));
  });
});
