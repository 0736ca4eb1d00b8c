import fc from 'fast-check';
import { expect, it } from 'vitest';
import { crc32c } from './crc32c.js';
import { combineCrc32c } from './crc32c-combine.js';

it('combines the crcs of two parts', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 300 }), (a, b) => {
      expect(combineCrc32c(crc32c(a), crc32c(b), b.length)).toBe(crc32c(Buffer.concat([a, b])));
    }),
  );
});

it('combines the crcs of parts longer than any array', () => {
  let [length, crc] = [1 << 20, crc32c(new Uint8Array(1 << 20))];
  const whole = crc32c(new Uint8Array(1 << 25));
  for (; length < 1 << 25; length *= 2) crc = combineCrc32c(crc, crc, length);
  expect(crc).toBe(whole);
  // Combining is associative, far beyond 32-bit lengths.
  const [long, half] = [2 ** 40 + 12_345, 2 ** 39];
  const parts = combineCrc32c(combineCrc32c(7, 9, half), 11, long - half);
  expect(parts).toBe(combineCrc32c(7, combineCrc32c(9, 11, long - half), long));
});
