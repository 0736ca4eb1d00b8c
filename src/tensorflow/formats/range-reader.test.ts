import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DirectoryReader } from './range-reader.js';

let folder: string;
let files: DirectoryReader;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'shoal-ranges-'));
  await writeFile(join(folder, 'some'), '0123456789');
  await mkdir(join(folder, 'folder'));
  files = new DirectoryReader(folder);
});
afterAll(async () => {
  await files.close();
  await rm(folder, { recursive: true, force: true });
});

test('reads a range, also into given memory', async () => {
  expect(await files.size('some')).toBe(10);
  expect(Buffer.from(await files.read('some', 2, 3)).toString()).toBe('234');
  const into = new Uint8Array(4);
  expect(await files.read('some', 6, 4, into)).toBe(into);
  expect(Buffer.from(into).toString()).toBe('6789');
});

test('a range past the end is an error, not a short read', async () => {
  await expect(files.read('some', 8, 3)).rejects.toThrow(
    /some ends at byte 10, 1 bytes before the end of the range/,
  );
});

test('a missing file is SHOAL_NOT_FOUND, and is found once it exists', async () => {
  await expect(files.size('later')).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  await writeFile(join(folder, 'later'), 'x');
  expect(await files.size('later')).toBe(1);
});

test('a file that cannot be read is a ShoalError', async () => {
  await expect(files.read('folder', 0, 1)).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE' });
});
