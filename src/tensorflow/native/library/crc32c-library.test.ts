import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32c as packageCrc32c } from '@node-rs/crc32';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { crc32c, useCrc32c } from '../../../base/bytes/crc32c.js';
import { useCrc32cLibrary } from './crc32c-library.js';
import { locateCrc32c } from './locate.js';

/** On other machines it may be impossible to install it, or the platform may have none. */
const isExpected = process.env.CI !== undefined && process.platform === 'linux';

test.runIf(isExpected || locateCrc32c())('the library computes the same as the npm package', () => {
  expect(useCrc32cLibrary()).toBe(true);
  expect(crc32c(new TextEncoder().encode('123456789'.repeat(20)))).toBe(
    packageCrc32c('123456789'.repeat(20)),
  );
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 33, maxLength: 3_000 }),
      fc.nat(0xffffffff),
      fc.nat(7),
      (bytes, seed, start) => {
        const part = bytes.subarray(start);
        expect(crc32c(part, seed)).toBe(packageCrc32c(part, seed));
      },
    ),
  );
  const large = new Uint8Array(50_000_017).map((_, i) => Math.imul(i, 0x9e3779b1) >> 13);
  expect(crc32c(large, 5)).toBe(packageCrc32c(large, 5));
});

test('a library that is missing, damaged or wrong is not used', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'shoal-crc32c-'));
  try {
    const path = join(scratch, 'libcrc32c.so.1');
    expect(useCrc32cLibrary(path)).toBe(false);
    writeFileSync(path, 'not a library');
    expect(useCrc32cLibrary(path)).toBe(false);
    vi.stubEnv('SHOAL_CACHE', scratch);
    expect(useCrc32cLibrary()).toBe(false);
    expect(useCrc32c(() => 7)).toBe(false);
    expect(crc32c(new Uint8Array(100))).toBe(packageCrc32c(new Uint8Array(100)));
  } finally {
    vi.unstubAllEnvs();
    rmSync(scratch, { recursive: true, force: true });
  }
});
