import { randomBytes, randomFillSync } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { alignedBlocks } from './aligned.js';
import { DirectWriter, openDirect } from './direct-writer.js';
import { DirectoryStore } from './directory-store.js';

describe('files written with direct I/O', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-direct-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it.each([1, 4095, 4096, 4097, (4 << 20) - 1, 4 << 20, (13 << 20) + 77])(
    'contain the %i bytes that were written, in chunks of any size',
    async (size) => {
      const bytes = randomBytes(size);
      const path = join(folder, 'x');
      const file = await openDirect(path);
      // Without support for direct I/O no file remains.
      if (!file) return expect(existsSync(path)).toBe(false);
      const writer = new DirectWriter(file, { readBack: true });
      for (let at = 0, step = 1; at < size; at += step, step = Math.min(step * 3, 3_000_000)) {
        await writer.write(bytes.subarray(at, at + step));
      }
      expect(writer.position).toBe(size);
      await writer.sync();
      expect(await writer.readBack()).toBe(crc32c(bytes));
      await file.close();
      expect(statSync(path).size).toBe(size);
      expect(readFileSync(path).equals(bytes)).toBe(true);
    },
  );

  it.each([
    ['as in the file', 64],
    ['differently', 4000],
  ])('take chunks that are aligned %s, while they are valid', async (_, place) => {
    const memory = alignedBlocks(3, 4 << 20).map((block) => block.subarray(place));
    const parts: Buffer[] = [];
    const source = async function* () {
      parts.push(randomBytes(64));
      yield parts[0]!;
      for (let i = 0; i < 40; i++) {
        // The chunk before the previous one must not be read any more.
        const [chunk, gone] = [memory[i % 3]!, memory[(i + 1) % 3]!];
        gone.fill(0xee);
        const size = i === 39 ? 5000 : i % 7 === 3 ? 1 << 20 : (4 << 20) - 4096;
        randomFillSync(chunk);
        parts.push(Buffer.from(chunk.subarray(0, size)));
        yield chunk.subarray(0, size);
      }
    };
    const path = join(folder, 'x');
    const file = await openDirect(path);
    if (!file) return;
    const writer = new DirectWriter(file, { readBack: true, lasting: true });
    for await (const chunk of source()) await writer.write(chunk);
    await writer.sync();
    const bytes = Buffer.concat(parts);
    expect(await writer.readBack()).toBe(crc32c(bytes));
    await file.close();
    expect(readFileSync(path).equals(bytes)).toBe(true);
  });

  it('are used by a store that knows size and sum', async () => {
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

  it('are removed when they read back differently', async () => {
    const store = new DirectoryStore(folder);
    const put = store.put('big', randomBytes(20 << 20), {
      size: 20 << 20,
      crc32c: () => 7,
      readBack: true,
    });
    await expect(put).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    expect(existsSync(join(folder, 'big'))).toBe(false);
  });
});
