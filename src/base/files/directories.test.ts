import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { makeDirectory, makeDirectorySync, requireDirectory } from './directories.js';

let scratch: string;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-directories-'));
});

afterEach(() => rmSync(scratch, { recursive: true, force: true }));

describe.each([
  ['makeDirectory', makeDirectory],
  ['makeDirectorySync', async (...args: Parameters<typeof makeDirectorySync>) => makeDirectorySync(...args)],
])('%s', (_, make) => {
  test('creates missing parents, with the mode, and returns what it created', async () => {
    const path = join(scratch, 'a/b/c');
    expect(await make(path, { mode: 0o700 })).toEqual(
      ['a', 'a/b', 'a/b/c'].map((part) => join(scratch, part)),
    );
    expect(statSync(join(scratch, 'a')).mode & 0o777).toBe(0o700);
    expect(await make(path)).toEqual([]);
  });

  test('fails if the path or a part of it is a file', async () => {
    writeFileSync(join(scratch, 'file'), '');
    await expect(make(join(scratch, 'file'))).rejects.toThrow('EEXIST');
    await expect(make(join(scratch, 'file/a/b'))).rejects.toThrow('ENOTDIR');
  });

  test.runIf(process.platform === 'linux')('returns on a file system without new directories', async () => {
    await expect(make('/proc/shoal/a')).rejects.toThrow('ENOENT');
  });
});

test('requireDirectory names the option, the path and the reason', () => {
  const path = join(scratch, 'file');
  writeFileSync(path, '');
  expect(() => requireDirectory(path, '--dir')).toThrow(`--dir: ${path} cannot be used: it is a file`);
  expect(() => requireDirectory(join(path, 'a'), '--dir')).toThrow('a part of the path is a file');
});
