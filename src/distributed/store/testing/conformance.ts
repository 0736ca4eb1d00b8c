/** Conformance tests for stores. */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { crc32c } from '../../../base/bytes/crc32c.js';
import type { BlobInfo, BlobSource, Store, StoreReadOptions } from '../store.js';

export interface StoreUnderTest {
  readonly store: Store;
  /** Another instance over the same blobs, as in another process. */
  readonly other: Store;
  /** The number of temporary files. */
  leftovers(): number;
  close(): Promise<void>;
}

export function chunksOf(bytes: Uint8Array, step = 65_536): BlobSource {
  return async function* (offset) {
    for (let at = offset; at < bytes.byteLength; at += step) yield bytes.subarray(at, at + step);
  };
}

export async function readAll(store: Store, name: string, options?: StoreReadOptions): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of store.read(name, options)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export async function listed(store: Store, prefix?: string): Promise<readonly BlobInfo[]> {
  const found: BlobInfo[] = [];
  for await (const blob of store.list(prefix)) found.push(blob);
  return found;
}

const names = async (store: Store, prefix?: string) =>
  (await listed(store, prefix)).map(({ name }) => name).sort();

export function describeStore(kind: string, make: () => Promise<StoreUnderTest>): void {
  describe(`the ${kind} store`, { timeout: 120_000 }, () => {
    let made: StoreUnderTest;
    let store: Store;
    beforeEach(async () => {
      made = await make();
      store = made.store;
    }, 60_000);
    afterEach(() => made.close(), 60_000);

    const isAbsent = async (name: string) => {
      expect(await store.stat(name)).toBeUndefined();
      expect(await store.locate(name)).toEqual([]);
      expect(await names(store)).not.toContain(name);
      await expect(readAll(store, name)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
      expect(made.leftovers()).toBe(0);
    };

    it('returns what was put, of any size, from memory and from a stream', async () => {
      for (const size of [0, 1, 65_536, 3_000_001]) {
        const bytes = randomBytes(size);
        const fromMemory = await store.put(`dir/memory-${size}`, bytes);
        const fromStream = await store.put(`dir/stream-${size}`, chunksOf(bytes));
        for (const result of [fromMemory, fromStream]) {
          expect(result).toMatchObject({ published: true, size, crc32c: crc32c(bytes), shortfall: 0 });
          expect(result.places.length).toBeGreaterThan(0);
        }
        expect((await readAll(store, `dir/memory-${size}`)).equals(bytes)).toBe(true);
        expect((await readAll(made.other, `dir/stream-${size}`)).equals(bytes)).toBe(true);
      }
      expect(made.leftovers()).toBe(0);
    });

    it('accepts a large blob in chunks of any size', async () => {
      const bytes = randomBytes(64 << 20);
      const steps = [7, 4096, 100_000, 1 << 20, 9_000_000];
      const source: BlobSource = async function* (offset) {
        for (let at = offset, i = 0; at < bytes.byteLength; i++) {
          const step = steps[i % steps.length]!;
          yield bytes.subarray(at, at + step);
          at += step;
        }
      };
      const sum = crc32c(bytes);
      const result = await store.put('large', source, { size: bytes.byteLength });
      expect(result).toMatchObject({ published: true, size: bytes.byteLength, crc32c: sum });
      expect(await store.digest('large')).toEqual({ size: bytes.byteLength, crc32c: sum });
      let [found, size] = [0, 0];
      for await (const chunk of store.read('large')) {
        found = crc32c(chunk, found);
        size += chunk.byteLength;
      }
      expect({ size, crc32c: found }).toEqual({ size: bytes.byteLength, crc32c: sum });
    });

    it('uses the sum that the source provides', async () => {
      const bytes = randomBytes(5_000_000);
      const sum = crc32c(bytes);
      const result = await store.put('summed', chunksOf(bytes), { crc32c: () => sum });
      expect(result.crc32c).toBe(sum);
      expect((await readAll(made.other, 'summed')).equals(bytes)).toBe(true);
    });

    it('reads any range, and refuses one outside the blob', async () => {
      const bytes = randomBytes(2_500_000);
      await store.put('r', bytes);
      for (const reader of [store, made.other]) {
        const range = (start?: number, end?: number) => readAll(reader, 'r', { start, end });
        expect((await range(0, 10)).equals(bytes.subarray(0, 10))).toBe(true);
        expect((await range(1_048_570, 2_097_160)).equals(bytes.subarray(1_048_570, 2_097_160))).toBe(true);
        expect((await range(2_499_999)).equals(bytes.subarray(2_499_999))).toBe(true);
        expect((await range(2_499_990, 9_000_000)).equals(bytes.subarray(2_499_990))).toBe(true);
        expect(await range(7, 7)).toHaveLength(0);
        expect(await range(2_500_000)).toHaveLength(0);
        await expect(range(2_500_001)).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
        await expect(range(-1)).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
        await expect(range(5, 4)).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
      }
    });

    it('can be read from where a reader stopped', async () => {
      const bytes = randomBytes(5_000_000);
      await store.put('halves', bytes);
      const halves: Uint8Array[] = [];
      let offset = 0;
      for await (const chunk of store.read('halves')) {
        halves.push(chunk);
        offset += chunk.byteLength;
        if (offset > 1_000_000) break;
      }
      halves.push(await readAll(made.other, 'halves', { start: offset }));
      expect(Buffer.concat(halves).equals(bytes)).toBe(true);
    });

    it('reports the properties of a blob, and that a missing blob is missing', async () => {
      const before = Date.now();
      await store.put('a/b', randomBytes(77));
      const info = await store.stat('a/b');
      expect(info).toMatchObject({ name: 'a/b', size: 77 });
      expect(info!.modifiedMs).toBeGreaterThan(before - 60_000);
      expect(info!.places).toEqual(await store.locate('a/b'));
      expect(await store.stat('a/b', { place: info!.places[0] })).toMatchObject({ size: 77 });
      for (const name of ['a', 'a/c', 'b']) {
        expect(await store.stat(name)).toBeUndefined();
        expect(await store.locate(name)).toEqual([]);
        await expect(readAll(store, name)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
        await expect(store.digest(name)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
      }
    });

    it('replaces a blob atomically', async () => {
      const old = Buffer.alloc(3_000_000, 1);
      await store.put('swap', old);
      const reading = store.read('swap')[Symbol.asyncIterator]();
      const first = await reading.next();
      expect((first.value as Uint8Array)[0]).toBe(1);
      await reading.return?.();
      const gate = withResolvers();
      const slow: BlobSource = async function* () {
        yield Buffer.alloc(1_500_000, 2);
        await gate.promise;
        yield Buffer.alloc(1_500_000, 2);
      };
      const putting = store.put('swap', slow);
      expect((await readAll(store, 'swap')).equals(old)).toBe(true);
      gate.resolve(undefined);
      await putting;
      expect((await readAll(made.other, 'swap')).every((byte) => byte === 2)).toBe(true);
    });

    it.each([
      ['a small', 3000, 1 << 20],
      ['a large', 3_000_000, 24 << 20],
    ])('consumes %s chunk before it requests the next, which reuses the memory', async (_, step, size) => {
      const bytes = randomBytes(size);
      const source: BlobSource = async function* (offset) {
        const memory = Buffer.alloc(step);
        for (let at = offset; at < size; at += step) {
          const length = bytes.copy(memory, 0, at, at + step);
          yield memory.subarray(0, length);
          memory.fill(0);
        }
      };
      await store.put('reused', source, { size });
      expect((await readAll(store, 'reused')).equals(bytes)).toBe(true);
      const known = { size, crc32c: () => crc32c(bytes), readBack: true };
      await store.put('known', source, known);
      expect((await readAll(made.other, 'known')).equals(bytes)).toBe(true);
    });

    it('lists by prefix, each name once', async () => {
      const all = ['a.b', 'a/1', 'a/2/x', 'a/2/y', 'a2', 'b/1'];
      for (const name of all) await store.put(name, Buffer.from(name));
      expect(await names(store)).toEqual(all);
      expect(await names(made.other)).toEqual(all);
      expect(await names(store, 'a/')).toEqual(['a/1', 'a/2/x', 'a/2/y']);
      expect(await names(store, 'a/2')).toEqual(['a/2/x', 'a/2/y']);
      expect(await names(store, 'nothing/')).toEqual([]);
      const [info] = await listed(store, 'b/');
      expect(info).toMatchObject({ name: 'b/1', size: 3, places: await store.locate('b/1') });
    });

    it('removes a blob, and accepts the removal of a missing one', async () => {
      await store.put('x/y', Buffer.from('1'));
      await store.put('x/z', Buffer.from('2'));
      await store.remove('x/y');
      await store.remove('x/y');
      await isAbsent('x/y');
      expect(await made.other.stat('x/y')).toBeUndefined();
      expect((await readAll(store, 'x/z')).toString()).toBe('2');
      await store.put('x/y', Buffer.from('3'));
      expect((await readAll(store, 'x/y')).toString()).toBe('3');
    });

    it('does not replace an existing blob with ifAbsent', async () => {
      expect((await store.put('once', Buffer.from('first'), { ifAbsent: true })).published).toBe(true);
      const second = await made.other.put('once', Buffer.from('second'), { ifAbsent: true });
      expect(second).toMatchObject({ published: false, size: 6, crc32c: crc32c(Buffer.from('second')) });
      expect((await readAll(store, 'once')).toString()).toBe('first');
      await store.put('empty', Buffer.alloc(0), { ifAbsent: true });
      expect((await store.put('empty', Buffer.alloc(0), { ifAbsent: true })).published).toBe(false);
      expect(made.leftovers()).toBe(0);
    });

    it('lets one of twenty writers win', async () => {
      const puts = Array.from({ length: 20 }, (_, i) =>
        (i % 2 === 0 ? store : made.other).put('race', Buffer.from(`writer ${i}`), { ifAbsent: true }),
      );
      const results = await Promise.all(puts);
      const winners = results.flatMap(({ published }, i) => (published ? [i] : []));
      expect(winners).toHaveLength(1);
      expect((await readAll(store, 'race')).toString()).toBe(`writer ${winners[0]}`);
      expect((await readAll(made.other, 'race')).toString()).toBe(`writer ${winners[0]}`);
      expect(made.leftovers()).toBe(0);
    });

    it('publishes nothing when the source fails, and reports its error', async () => {
      const broken: BlobSource = async function* () {
        yield randomBytes(3_000_000);
        throw new Error('the source died');
      };
      await expect(store.put('broken', broken)).rejects.toThrow('the source died');
      await isAbsent('broken');
    });

    it('publishes nothing when the size differs from the given one', async () => {
      for (const size of [999, 1001]) {
        await expect(store.put('short', chunksOf(randomBytes(1000)), { size })).rejects.toMatchObject({
          code: expect.stringMatching(/^SHOAL_(CORRUPT|INVALID_ARGUMENT)$/),
        });
        await isAbsent('short');
      }
    });

    it('publishes nothing when a put is aborted, and does not wait for a source that hangs', async () => {
      const controller = new AbortController();
      const hanging: BlobSource = async function* () {
        yield randomBytes(3_000_000);
        setTimeout(() => controller.abort(), 50);
        await new Promise(() => {});
      };
      const putting = store.put('aborted', hanging, { signal: controller.signal });
      await expect(putting).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
      await isAbsent('aborted');
      await expect(
        store.put('aborted', randomBytes(10), { signal: AbortSignal.abort() }),
      ).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
      await isAbsent('aborted');
    });

    it('times out on a source without progress', async () => {
      const hanging: BlobSource = async function* () {
        yield randomBytes(1000);
        await new Promise(() => {});
      };
      await expect(store.put('stuck', hanging, { timeoutMs: 500 })).rejects.toMatchObject({
        code: 'SHOAL_TIMEOUT',
      });
      await isAbsent('stuck');
    });

    it('aborts a read by its signal', async () => {
      await store.put('long', randomBytes(8_000_000));
      const controller = new AbortController();
      const reading = async () => {
        for await (const _ of store.read('long', { signal: controller.signal })) controller.abort();
      };
      await expect(reading()).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    });

    it.each([
      '',
      '.',
      '..',
      '../x',
      'a/../../x',
      '/etc/passwd',
      'a//b',
      'a/',
      'a\\b',
      'a%2fb',
      'a\0b',
      '.shoal-uploads/x',
    ])('refuses the name %j', async (name) => {
      const refused = { code: 'SHOAL_INVALID_ARGUMENT' };
      await expect(store.put(name, Buffer.from('x'))).rejects.toMatchObject(refused);
      await expect(store.put(name, Buffer.from('x'), { ifAbsent: true })).rejects.toMatchObject(refused);
      await expect(readAll(store, name)).rejects.toMatchObject(refused);
      await expect(store.stat(name)).rejects.toMatchObject(refused);
      await expect(store.locate(name)).rejects.toMatchObject(refused);
      await expect(store.remove(name)).rejects.toMatchObject(refused);
      await expect(store.digest(name)).rejects.toMatchObject(refused);
    });

    it('refuses a folder outside the root', async () => {
      await expect(listed(store, '../')).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
    });

    it('does not sweep blobs being written', async () => {
      const gate = withResolvers();
      const slow: BlobSource = async function* () {
        yield Buffer.alloc(1000, 1);
        await gate.promise;
        yield Buffer.alloc(1000, 2);
      };
      const putting = store.put('slow', slow);
      await new Promise((tick) => setTimeout(tick, 50));
      await store.sweep();
      gate.resolve(undefined);
      expect((await putting).published).toBe(true);
      expect(await readAll(store, 'slow')).toHaveLength(2000);
    });
  });
}

function withResolvers(): { readonly promise: Promise<unknown>; readonly resolve: (value: unknown) => void } {
  let resolve: (value: unknown) => void = () => {};
  const promise = new Promise<unknown>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
