import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { crc32c } from '../../base/bytes/crc32c.js';
import { RESERVED } from './blob-names.js';
import { alignedBlocks } from './disk/aligned.js';
import { DirectoryStore } from './disk/directory-store.js';
import { MemoryStore } from './memory-store.js';
import { describeStore, listed, readAll } from './testing/conformance.js';

describeStore('memory', async () => {
  const store = new MemoryStore();
  return { store, other: store, leftovers: () => 0, close: () => store.close() };
});

function partials(root: string): string[] {
  const folder = join(root, RESERVED);
  return existsSync(folder) ? readdirSync(folder) : [];
}

describeStore('directory', async () => {
  const root = mkdtempSync(join(tmpdir(), 'shoal-store-'));
  return {
    store: new DirectoryStore(root),
    other: new DirectoryStore(root),
    leftovers: () => partials(root).length,
    close: async () => rmSync(root, { recursive: true, force: true }),
  };
});

describe('a directory', () => {
  let root: string;
  let store: DirectoryStore;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'shoal-store-'));
    store = new DirectoryStore(root);
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('is created with the mode of any directory, and only its incomplete files are private', async () => {
    mkdirSync(join(root, 'reference'));
    const modeOf = (path: string) => statSync(path).mode & 0o777;
    const created = join(root, 'a', 'b');
    await new DirectoryStore(created).put('blob', randomBytes(10));
    expect([modeOf(join(root, 'a')), modeOf(created)]).toEqual(
      Array(2).fill(modeOf(join(root, 'reference'))),
    );
    expect(modeOf(join(created, RESERVED))).toBe(0o700);
  });

  it('serves plain files that other programs put there', async () => {
    mkdirSync(join(root, 'given'));
    writeFileSync(join(root, 'given', 'file'), 'given');
    expect((await readAll(store, 'given/file')).toString()).toBe('given');
    expect(await listed(store)).toMatchObject([{ name: 'given/file', size: 5, places: ['here'] }]);
  });

  it('reads back what it writes on request', async () => {
    const bytes = randomBytes(20 << 20);
    const source = async function* (offset: number) {
      for (let at = offset; at < bytes.length; at += 3_000_001) yield bytes.subarray(at, at + 3_000_001);
    };
    const put = await store.put('x', source, { readBack: true });
    expect(put).toMatchObject({ size: bytes.length, crc32c: crc32c(bytes), readBack: ['here'] });
  });

  it('keeps no blob that reads back differently', async () => {
    const put = store.put('x', randomBytes(5 << 20), { readBack: true, crc32c: () => 7 });
    await expect(put).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    expect(await listed(store)).toEqual([]);
    expect(partials(root)).toEqual([]);
  });

  it('reports when an aborted read has stopped writing to memory', async () => {
    const bytes = randomBytes(8 << 20);
    await store.put('x', bytes);
    const [memory] = alignedBlocks(1, bytes.length) as [Uint8Array];
    const stop = new AbortController();
    let idle = 0;
    const onIdle = () => {
      idle += 1;
    };
    const reading = store.readInto('x', memory, { signal: stop.signal, onIdle });
    stop.abort();
    await expect(reading).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    await expect.poll(() => idle).toBe(1);
    expect(Buffer.from(memory).equals(bytes)).toBe(true);
    await expect(store.readInto('none', memory, { onIdle })).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
    });
    await expect.poll(() => idle).toBe(2);
  });

  it('is created by the first put', async () => {
    const deep = new DirectoryStore(join(root, 'not', 'yet'));
    expect(await listed(deep)).toEqual([]);
    expect(await deep.stat('x')).toBeUndefined();
    await deep.put('x', Buffer.from('x'));
    expect((await readAll(deep, 'x')).toString()).toBe('x');
  });

  it('refuses symbolic links', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'shoal-outside-'));
    try {
      symlinkSync(outside, join(root, 'link'));
      await expect(store.put('link/x', Buffer.from('x'))).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
      expect(readdirSync(outside)).toEqual([]);
      expect(partials(root)).toEqual([]);
    } finally {
      rmSync(outside, { recursive: true, force: true });
    }
  });

  it('refuses a blob whose parent is a blob', async () => {
    await store.put('f', Buffer.from('f'));
    await expect(store.put('f/g', Buffer.from('g'))).rejects.toMatchObject({
      code: 'SHOAL_INVALID_ARGUMENT',
    });
    expect(partials(root)).toEqual([]);
  });

  it('refuses a blob larger than the free space', async () => {
    const source = async function* () {
      yield Buffer.alloc(10);
    };
    await expect(store.put('huge', source, { size: 2 ** 50 })).rejects.toMatchObject({
      code: 'SHOAL_NO_SPACE',
    });
    expect(partials(root)).toEqual([]);
  });

  it('supports concurrent puts and removes in one folder', async () => {
    const turns = Array.from({ length: 50 }, async (_, i) => {
      await store.put(`busy/${i}`, Buffer.from('x'));
      await store.remove(`busy/${i}`);
    });
    await Promise.all(turns);
    expect(await listed(store)).toEqual([]);
  });

  it('sweeps old unfinished files only', async () => {
    mkdirSync(join(root, RESERVED));
    const [old, young] = ['old.part', 'young.part'].map((name) => join(root, RESERVED, name));
    for (const path of [old!, young!]) writeFileSync(path, 'half');
    const longAgo = Date.now() / 1000 - 7200;
    utimesSync(old!, longAgo, longAgo);
    expect(await store.sweep()).toBe(1);
    expect(partials(root)).toEqual(['young.part']);
    expect(await store.sweep({ olderThanMs: 0 })).toBe(1);
  });

  it('has one copy of a blob, in one place', async () => {
    await store.put('x', Buffer.from('x'));
    await expect(store.copy('x', 'ps/1')).rejects.toMatchObject({ code: 'SHOAL_UNSUPPORTED' });
    await expect(readAll(store, 'x', { place: 'ps/1' })).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
    expect((await readAll(store, 'x', { place: 'here' })).toString()).toBe('x');
  });
});
