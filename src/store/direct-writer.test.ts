import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { crc32c } from '../bytes/crc32c.js';
import { DirectWriter, openDirect } from './direct-writer.js';
import { DirectoryStore } from './directory-store.js';

describe('files written past the page cache', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-direct-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it.each([1, 4095, 4096, 4097, (4 << 20) - 1, 4 << 20, (13 << 20) + 77])(
    'have the bytes that were taken in, %i of them, in chunks of any size',
    async (size) => {
      const bytes = randomBytes(size);
      const path = join(folder, 'x');
      const file = await openDirect(path);
      // A file system without such writes: nothing of the attempt is left.
      if (!file) return expect(existsSync(path)).toBe(false);
      const writer = new DirectWriter(file, { readBack: true });
      for (let at = 0, step = 1; at < size; at += step, step = Math.min(step * 3, 3_000_000)) {
        await writer.write(bytes.subarray(at, at + step));
      }
      expect(writer.position).toBe(size);
      await writer.sync();
      await file.close();
      expect(statSync(path).size).toBe(size);
      expect(readFileSync(path).equals(bytes)).toBe(true);
    },
  );

  it('are what a store puts when it knows size and sum', async () => {
    const store = new DirectoryStore(folder);
    const bytes = randomBytes((20 << 20) + 5);
    const put = await store.put(
      'big',
      async function* () {
        for (let at = 0; at < bytes.length; at += 1_000_003) yield bytes.subarray(at, at + 1_000_003);
      },
      { size: bytes.length, crc32c: () => crc32c(bytes), readBack: true },
    );
    expect(put).toMatchObject({ published: true, size: bytes.length, crc32c: crc32c(bytes) });
    expect(readFileSync(join(folder, 'big')).equals(bytes)).toBe(true);
    expect(await store.digest('big')).toMatchObject({ size: bytes.length, crc32c: crc32c(bytes) });
  });
});
