/** The list of the files of a version. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MAX_FILES, manifestOf } from './manifest.js';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-manifest-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

test('a directory with links to itself is refused', async () => {
  const directory = join(root, 'loop');
  await mkdir(directory);
  for (const name of ['a', 'b']) await symlink('.', join(directory, name));
  await expect(manifestOf(directory)).rejects.toThrow(/contains itself/);
});

test('links that multiply a directory end at the limit of files', async () => {
  const directory = join(root, 'many');
  const depth = 16;
  for (let level = 0; level < depth; level++) {
    await mkdir(join(directory, `level-${level}`), { recursive: true });
    for (const name of ['a', 'b'])
      await symlink(`../level-${level + 1}`, join(directory, `level-${level}`, name));
  }
  await mkdir(join(directory, `level-${depth}`));
  await expect(manifestOf(directory)).rejects.toThrow(`more than ${MAX_FILES} files`);
});

test('links to files and directories are followed', async () => {
  const directory = join(root, 'links');
  await mkdir(join(directory, 'real'), { recursive: true });
  await writeFile(join(directory, 'real', 'file'), 'x');
  await symlink('real', join(directory, 'link'));
  expect((await manifestOf(directory)).files.map(({ path }) => path)).toEqual(['link/file', 'real/file']);
});
