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

test('a range is read, into given memory too', async () => {
  expect(await files.size('some')).toBe(10);
  expect(Buffer.from(await files.read('some', 2, 3)).toString()).toBe('234');
  const into = new Uint8Array(4);
  expect(await files.read('some', 6, 4, into)).toBe(into);
  expect(Buffer.from(into).toString()).toBe('6789');
});

test('a range past the end is corrupt, not short', async () => {
  await expect(files.read('some', 8, 3)).rejects.toThrow(/some ends at byte 10, 1 bytes too early/);
});

test('a missing file is not found, and is found once it is there', async () => {
  await expect(files.size('later')).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  await writeFile(join(folder, 'later'), 'x');
  expect(await files.size('later')).toBe(1);
});

test('what can not be read gives a coded error', async () => {
  await expect(files.read('folder', 0, 1)).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE' });
});
