import { randomBytes } from 'node:crypto';
import { getEventListeners } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { crc32c } from '../../../../base/bytes/crc32c.js';
import { blobName, blobPath, RESERVED } from '../../../store/blob-names.js';
import { Uploads } from '../../../store/disk/blob-upload.js';
import { type TestAgent, testAgent } from '../../testing/agents.js';
import { breakingProxy } from '../../testing/breaking-proxy.js';
import { rangeOf } from '../agent-requests.js';
import type { BlobClient } from './blob-client.js';

let peer: TestAgent;
let blobs: BlobClient;
beforeEach(async () => {
  peer = await testAgent();
  blobs = peer.client().blobs;
});
afterEach(() => peer.close());

const leftovers = () => (existsSync(join(peer.root, RESERVED)) ? readdirSync(join(peer.root, RESERVED)) : []);

async function* chunksOf(bytes: Uint8Array, offset: number, step = 65_536): AsyncGenerator<Uint8Array> {
  for (let at = offset; at < bytes.byteLength; at += step) yield bytes.subarray(at, at + step);
}

/** A raw request, without a client that would normalize it. */
async function raw(path: string, method = 'GET'): Promise<string> {
  const { host, port } = peer.agent.address;
  const socket = connect(port, host);
  socket.write(`${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`);
  return Buffer.concat(await socket.toArray()).toString();
}

describe('blobs', () => {
  it('survive a round trip, of any size', async () => {
    for (const size of [0, 1, 65_536, 3_000_001]) {
      const bytes = randomBytes(size);
      const written = await blobs.write(`some/dir/b-${size}`, bytes);
      expect(written).toEqual({ published: true, size, crc32c: crc32c(bytes) });
      expect((await blobs.readAll(`some/dir/b-${size}`, { crc32c: crc32c(bytes) })).equals(bytes)).toBe(true);
      expect(readFileSync(join(peer.root, `some/dir/b-${size}`)).equals(bytes)).toBe(true);
    }
    expect(leftovers()).toEqual([]);
  });

  it('get the mode of any file that this user creates, also an empty one', async () => {
    writeFileSync(join(peer.root, 'reference'), '');
    const modeOf = (name: string) => statSync(join(peer.root, name)).mode & 0o777;
    for (const size of [0, 10]) {
      await blobs.write(`modes/b-${size}`, randomBytes(size));
      expect(modeOf(`modes/b-${size}`)).toBe(modeOf('reference'));
    }
    expect(modeOf(RESERVED)).toBe(0o700);
  });

  it('can be read in any range', async () => {
    const bytes = randomBytes(1000);
    await blobs.write('r', bytes);
    const range = async (start: number, end?: number) => blobs.readAll('r', { start, end });
    expect(await range(0, 10)).toEqual(bytes.subarray(0, 10));
    expect(await range(990)).toEqual(bytes.subarray(990));
    expect(await range(990, 5000)).toEqual(bytes.subarray(990));
    expect(await range(1000)).toEqual(Buffer.alloc(0));
    await expect(range(1001)).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
  });

  it('show that the agent is used, while they are read and afterwards; other requests do not', async () => {
    await raw('/health');
    expect(peer.agent.transferredAt).toBe(Number.NEGATIVE_INFINITY);
    await blobs.write('r', randomBytes(3_000_000));
    const begun = performance.now();
    for await (const _ of blobs.read('r')) expect(peer.agent.transferredAt).toBeGreaterThanOrEqual(begun);
    await expect.poll(() => peer.agent.transferredAt).toBe(peer.agent.transferredAt);
    expect(peer.agent.transferredAt).toBeGreaterThanOrEqual(begun);
  });

  it('are read many times over one connection without leaking listeners', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on('warning', note);
    await blobs.write('often', Buffer.from('x'));
    const client = peer.client(undefined, { maxSockets: 1 });
    for (let i = 0; i < 30; i++) await client.blobs.readAll('often');
    const { signal } = new AbortController();
    await Promise.all(Array.from({ length: 30 }, () => client.blobs.readAll('often', { signal })));
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    await new Promise((tick) => setImmediate(tick));
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });

  it('have a size and a digest; a missing one is undefined or not found', async () => {
    const bytes = randomBytes(77);
    await blobs.write('a/b', bytes);
    await expect(blobs.stat('a/b')).resolves.toMatchObject({ name: 'a/b', size: 77 });
    await expect(blobs.digest('a/b')).resolves.toEqual({ size: 77, crc32c: crc32c(bytes) });
    await expect(blobs.stat('a')).resolves.toBeUndefined();
    await expect(blobs.stat('a/c')).resolves.toBeUndefined();
    await expect(blobs.readAll('a/c')).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
    await expect(blobs.readAll('a/b/c')).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  });

  it('are listed by prefix, page by page, each once', async () => {
    const names = ['a.b', 'a/1', 'a/2/x', 'a/2/y', 'a2', 'b/1'];
    for (const name of names) await blobs.write(name, Buffer.from(name));
    const list = async (prefix: string, pageSize: number) => {
      const found: string[] = [];
      for await (const { name } of blobs.list(prefix, { pageSize })) found.push(name);
      return found;
    };
    for (const pageSize of [1, 2, 100]) expect((await list('', pageSize)).sort()).toEqual(names);
    expect(await list('a/', 1)).toEqual(['a/1', 'a/2/x', 'a/2/y']);
    expect(await list('a/2', 10)).toEqual(['a/2/x', 'a/2/y']);
    expect(await list('nothing/', 10)).toEqual([]);
  });

  it('are removed together with directories that become empty', async () => {
    await blobs.write('x/y/1', Buffer.from('1'));
    await blobs.write('x/2', Buffer.from('2'));
    await blobs.remove('x/y/1');
    await blobs.remove('x/y/1');
    expect(readdirSync(join(peer.root, 'x'))).toEqual(['2']);
  });

  it('are not replaced with ifAbsent', async () => {
    await blobs.write('once', Buffer.from('first'), { ifAbsent: true });
    const second = await blobs.write('once', Buffer.from('second'), { ifAbsent: true });
    expect(second.published).toBe(false);
    expect((await blobs.readAll('once')).toString()).toBe('first');
    await blobs.write('once', Buffer.from('third'));
    expect((await blobs.readAll('once')).toString()).toBe('third');
    expect(leftovers()).toEqual([]);
  });

  it('cannot have a blob as parent', async () => {
    await blobs.write('f', Buffer.from('f'));
    await expect(blobs.write('f/g', Buffer.from('g'))).rejects.toMatchObject({
      code: 'SHOAL_INVALID_ARGUMENT',
    });
  });

  it('that were damaged on disk fail their checksum', async () => {
    const bytes = randomBytes(1000);
    await blobs.write('d', bytes);
    writeFileSync(join(peer.root, 'd'), randomBytes(1000));
    await expect(blobs.readAll('d', { crc32c: crc32c(bytes) })).rejects.toMatchObject({
      code: 'SHOAL_CORRUPT',
    });
  });

  it('larger than the free space are refused, and leave nothing behind', async () => {
    const { bavail, bsize } = statfsSync(peer.root);
    const source = async function* () {
      yield Buffer.alloc(10);
    };
    const size = Math.min(bavail * bsize * 2, 2 ** 42);
    await expect(blobs.write('huge', source, { size })).rejects.toMatchObject({
      code: 'SHOAL_NO_SPACE',
      message: expect.stringContaining(peer.address),
    });
    expect(leftovers()).toEqual([]);
    expect(existsSync(join(peer.root, 'huge'))).toBe(false);
  });

  it('larger than the limit are refused', async () => {
    const small = await testAgent({ limits: { maxBlobBytes: 1000 } });
    try {
      const { blobs: client } = small.client();
      await expect(client.write('x', randomBytes(1001))).rejects.toMatchObject({
        code: 'SHOAL_INVALID_ARGUMENT',
      });
      const unsized = () => chunksOf(randomBytes(5000), 0, 500);
      await expect(client.write('x', unsized)).rejects.toThrow(/larger than 1000 bytes/);
    } finally {
      await small.close();
    }
  });
});

describe('a blob whose connection breaks', () => {
  const bytes = randomBytes(8_000_000);

  it('resumes an interrupted upload', async () => {
    const proxy = await breakingProxy(peer.address, { afterBytes: 2_000_000, times: 3, direction: 'up' });
    try {
      const client = peer.client(undefined, { address: proxy.address });
      const offsets: number[] = [];
      const source = (offset: number) => {
        offsets.push(offset);
        return chunksOf(bytes, offset);
      };
      await client.blobs.write('cut', source, { size: bytes.byteLength });
      expect(proxy.breaks()).toBe(3);
      expect(offsets).toHaveLength(4);
      expect(offsets.slice(1).every((offset, i) => offset > offsets[i]!)).toBe(true);
      expect(readFileSync(join(peer.root, 'cut')).equals(bytes)).toBe(true);
    } finally {
      await proxy.close();
    }
  });

  it('resumes an interrupted download', async () => {
    await blobs.write('cut', bytes);
    const proxy = await breakingProxy(peer.address, { afterBytes: 3_000_000, times: 2, direction: 'down' });
    try {
      const client = peer.client(undefined, { address: proxy.address });
      expect((await client.blobs.readAll('cut', { crc32c: crc32c(bytes) })).equals(bytes)).toBe(true);
      expect(proxy.breaks()).toBe(2);
    } finally {
      await proxy.close();
    }
  });

  it('fails when it changed before the download resumed', async () => {
    await blobs.write('moving', bytes);
    const proxy = await breakingProxy(peer.address, { afterBytes: 3_000_000, times: 1, direction: 'down' });
    try {
      const stream = peer.client(undefined, { address: proxy.address }).blobs.read('moving');
      await stream.next();
      await blobs.write('moving', randomBytes(8_000_000));
      const rest = async () => {
        for await (const _ of stream);
      };
      await expect(rest()).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    } finally {
      await proxy.close();
    }
  });

  it('resumes after the receiver restarted, with the same upload id', async () => {
    const id = 'upload-0001';
    const before = new Uploads(peer.root);
    await before.append(blobName('again'), id, 0, () => chunksOf(bytes.subarray(0, 3_000_000), 0));
    const offsets: number[] = [];
    const source = (offset: number) => {
      offsets.push(offset);
      return chunksOf(bytes, offset);
    };
    await blobs.write('again', source, { size: bytes.byteLength, uploadId: id });
    expect(offsets).toEqual([0, 3_000_000]);
    expect(readFileSync(join(peer.root, 'again')).equals(bytes)).toBe(true);
  });

  it('is not published before it is complete, and its partial file can be swept', async () => {
    const broken = async function* () {
      yield bytes.subarray(0, 100_000);
      throw new Error('the sender died');
    };
    await expect(blobs.write('half', broken, { uploadId: 'upload-0002' })).rejects.toThrow('the sender died');
    expect(await blobs.stat('half')).toBeUndefined();
    const { uploads } = peer.agent;
    await uploads!.settledOffset(blobName('half'), 'upload-0002');
    expect(leftovers()).toHaveLength(1);
    expect(await uploads!.sweep(60_000)).toBe(0);
    expect(await uploads!.sweep(60_000, Date.now() + 120_000)).toBe(1);
    expect(leftovers()).toEqual([]);
  });

  it('of an earlier process is swept when an agent starts, unless it may resume', async () => {
    const [dead, cut] = ['a'.repeat(64), 'b'.repeat(64)].map((name) => `${name}.part`);
    const folder = join(peer.root, RESERVED);
    mkdirSync(folder, { recursive: true });
    for (const name of [dead!, cut!]) writeFileSync(join(folder, name), 'half');
    const longAgo = Date.now() / 1000 - 7200;
    utimesSync(join(folder, dead!), longAgo, longAgo);
    const { agent } = await testAgent({ blobRoot: peer.root });
    try {
      await vi.waitFor(() => expect(leftovers()).toEqual([cut]), { timeout: 30_000 });
    } finally {
      await agent.close();
    }
  });

  it('of an earlier process is removed when the receiver shuts down gracefully, one of its successor is not', async () => {
    const [dead, successors] = ['a'.repeat(64), 'b'.repeat(64)].map((name) => `${name}.part`);
    const folder = join(peer.root, RESERVED);
    mkdirSync(folder, { recursive: true });
    for (const name of [dead!, successors!]) writeFileSync(join(folder, name), 'half');
    const before = performance.timeOrigin / 1000 - 1;
    utimesSync(join(folder, dead!), before, before);
    await peer.agent.close({ graceMs: 100 });
    expect(leftovers()).toEqual([successors]);
  });

  it('leaves nothing when the receiver shuts down gracefully meanwhile', async () => {
    const { uploads } = peer.agent;
    const cut = async function* () {
      yield bytes.subarray(0, 100_000);
      throw new Error('the sender died');
    };
    await expect(blobs.write('cut', cut, { uploadId: 'upload-0004' })).rejects.toThrow('the sender died');
    let goOn = () => {};
    const slow = async function* () {
      yield bytes.subarray(0, 200_000);
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
    };
    const write = blobs.write('slow', slow, { uploadId: 'upload-0005', size: 3_000_000, timeoutMs: 5000 });
    write.catch(() => {});
    await expect.poll(() => uploads!.offset(blobName('slow'), 'upload-0005')).toBe(200_000);
    expect(leftovers()).toHaveLength(2);
    await peer.agent.close({ graceMs: 100 });
    expect(leftovers()).toEqual([]);
    goOn();
    await expect(write).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE' });
    expect(readdirSync(peer.root)).toEqual([RESERVED]);
  });

  it('is taken over by a second request for the same upload while the first hangs', async () => {
    const { uploads } = peer.agent;
    const name = blobName('taken');
    const hanging = (signal: AbortSignal) =>
      (async function* () {
        yield bytes.subarray(0, 1000);
        await new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)));
      })();
    const first = uploads!.append(name, 'upload-0003', 0, hanging);
    first.catch(() => {});
    await expect.poll(() => uploads!.offset(name, 'upload-0003')).toBe(1000);
    await uploads!.append(name, 'upload-0003', 1000, () => chunksOf(bytes.subarray(1000, 2000), 0));
    await expect(first).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    const digest = { size: 2000, crc32c: crc32c(bytes.subarray(0, 2000)) };
    await expect(uploads!.publish(name, 'upload-0003', digest)).resolves.toMatchObject({
      published: true,
    });
  });

  it('is not published with the wrong sum, and publishing is idempotent', async () => {
    const { uploads } = peer.agent;
    const name = blobName('sum');
    const part = bytes.subarray(0, 5000);
    const send = () => uploads!.append(name, 'upload-0004', 0, () => chunksOf(part, 0));
    await send();
    const wrong = { size: 5000, crc32c: crc32c(bytes) };
    await expect(uploads!.publish(name, 'upload-0004', wrong)).rejects.toMatchObject({
      code: 'SHOAL_CORRUPT',
    });
    expect(existsSync(join(peer.root, 'sum'))).toBe(false);
    await send();
    const right = { size: 5000, crc32c: crc32c(part) };
    await expect(uploads!.publish(name, 'upload-0004', right)).resolves.toMatchObject({ published: true });
    await expect(uploads!.publish(name, 'upload-0004', right)).resolves.toMatchObject({ published: true });
  });
});

describe('names that lead out of the root', () => {
  beforeEach(() => {
    writeFileSync(join(peer.root, '..', 'secret'), 'secret');
    mkdirSync(join(peer.root, 'plain'));
    symlinkSync(join(peer.root, '..'), join(peer.root, 'plain', 'up'));
    symlinkSync(join(peer.root, '..', 'secret'), join(peer.root, 'plain', 'leak'));
  });

  it.each([
    '/blobs/../secret',
    '/blobs/..%2fsecret',
    '/blobs/%2e%2e/secret',
    '/blobs/%2e%2e%2fsecret',
    '/blobs/%252e%252e%252fsecret',
    '/blobs/plain/../../secret',
    '/blobs/plain/..%5c..%5csecret',
    '/blobs//etc/passwd',
    '/blobs/%2fetc/passwd',
    '/blobs/plain/%00',
    '/blobs/secret%00',
    '/blobs/%c0%ae%c0%ae/secret',
    '/blobs/%u002e%u002e/secret',
    '/blobs/.',
    '/blobs/',
    '/blobs/plain/up/secret',
    '/blobs/plain/leak',
    '/blobs/plain',
    '/blobs/.shoal-uploads/x',
    '/blobs/.SHOAL-uploads/x',
    '/blobs/a%E2%80%AEb',
    'http://127.0.0.1/blobs/../secret',
    '/blobs?prefix=../',
    '/blobs?prefix=plain/up/',
  ])('%s reveals nothing', async (path) => {
    const answer = await raw(path);
    expect(answer).toMatch(/^HTTP\/1.1 (400|403|404) /);
    expect(answer).not.toMatch(/secret$|root:/m);
  });

  it.each(['PUT', 'DELETE', 'POST'])('cannot be used with %s either', async (method) => {
    const query = '?id=upload-0009&size=0&crc32c=0';
    for (const name of ['plain/leak', 'plain/up/secret', '..%2fsecret', 'plain/up/fresh']) {
      const kind = method === 'DELETE' ? 'blobs' : 'uploads';
      const answer = await raw(`/${kind}/${name}${query}`, method);
      if (method !== 'PUT') expect(answer).toMatch(/^HTTP\/1.1 (400|403|404) /);
    }
    expect(readFileSync(join(peer.root, '..', 'secret'), 'utf8')).toBe('secret');
    expect(existsSync(join(peer.root, '..', 'fresh'))).toBe(false);
  });

  it('do not appear in a list', async () => {
    const names: string[] = [];
    for await (const { name } of blobs.list()) names.push(name);
    expect(names).toEqual([]);
  });

  it('are invalid, whatever the text; a valid name survives a round trip through a URL', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 30 }), (text) => {
        let name: string;
        try {
          name = blobName(text);
        } catch {
          return;
        }
        expect(join('/root', name)).toBe(`/root/${name}`);
        expect(decodeURIComponent(blobPath(blobName(name)))).toBe(name);
        expect(new URL(`http://h/blobs/${blobPath(blobName(name))}`).pathname.startsWith('/blobs/')).toBe(
          true,
        );
      }),
      { numRuns: 2000 },
    );
  });
});

describe('rangeOf', () => {
  it('stays within the blob', () => {
    const part = fc.option(fc.nat(200), { nil: '' as const });
    fc.assert(
      fc.property(part, part, fc.nat(100), (first, last, size) => {
        const range = rangeOf(`bytes=${first}-${last}`, size);
        if (range === undefined) return;
        expect(range.start).toBeGreaterThanOrEqual(0);
        expect(range.end).toBeLessThanOrEqual(size);
        expect(range.start).toBeLessThanOrEqual(range.end);
      }),
    );
  });
});

describe('memory', { timeout: 300_000 }, () => {
  it('stays far below the size of the streamed blobs, in both directions', async () => {
    const size = 128 << 20;
    const block = randomBytes(1 << 20);
    const source = async function* (offset: number) {
      for (let at = offset; at < size; at += block.byteLength) yield block;
    };
    const warm = async () => {
      await blobs.write('big', () => chunksOf(block, 0), {});
      for await (const _ of blobs.read('big'));
    };
    await warm();
    const before = process.memoryUsage().rss;
    let peak = 0;
    const timer = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss - before);
    }, 5);
    try {
      const written = await blobs.write('big', source, { size });
      let read = 0;
      for await (const chunk of blobs.read('big', { crc32c: written.crc32c })) {
        read += chunk.byteLength;
        // With a slow reader the sender must wait, and memory must not grow.
        if (read % (8 << 20) < chunk.byteLength) await new Promise((tick) => setTimeout(tick, 2));
      }
      expect(read).toBe(size);
    } finally {
      clearInterval(timer);
    }
    expect(peak / size).toBeLessThan(0.5);
  });
});
