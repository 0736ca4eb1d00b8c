/** The peers store over real agents: tasks of one cluster in this process, each with its own disk. */
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { RESERVED } from '../../store/blob-names.js';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import type { PeerBlobs, Peers } from '../../store/peers/peers.js';
import { PeersStore } from '../../store/peers/peers-store.js';
import type { BlobSource } from '../../store/store.js';
import { chunksOf, describeStore, listed, readAll } from '../../store/testing/conformance.js';
import { ClusterSpec } from '../spec/cluster-spec.js';
import { taskId } from '../spec/task-id.js';
import { type ClusterTask, joinCluster } from '../task/cluster-task.js';
import { peersOf, placeOf, taskAt } from '../task/peers.js';
import { AGENT_LIMITS } from './agent-options.js';

const PATIENCE_MS = 30_000;

interface Member {
  readonly task: ClusterTask;
  readonly place: string;
  readonly root: string;
  readonly store: PeersStore;
}

interface Crew {
  readonly members: readonly Member[];
  readonly at: (place: string) => Member;
  readonly close: () => Promise<void>;
}

interface CrewOptions {
  readonly replicas?: number;
  /** The host of a task, by its place; default: a host per task. */
  readonly hosts?: (place: string) => string;
  readonly maxBlobBytes?: number;
}

async function crewOf(count: number, options: CrewOptions = {}): Promise<Crew> {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-peers-'));
  const members: Member[] = [];
  const addresses: string[] = [];
  for (let index = 0; index < count; index++) {
    const ps = [...addresses, ...Array.from({ length: count - index }, (_, i) => `127.0.0.1:${i + 1}`)];
    const root = join(folder, `disk-${index}`);
    const task = await joinCluster({
      spec: new ClusterSpec({ ps }),
      self: taskId('ps', index),
      security: { kind: 'none' },
      listen: '127.0.0.1:0',
      blobRoot: root,
      settings: { heartbeatMs: 200, deadAfterMs: 20_000 },
      limits: { maxBlobBytes: options.maxBlobBytes ?? AGENT_LIMITS.maxBlobBytes },
      onExit: () => {},
    });
    addresses.push(task.agentAddress);
    const directory = new DirectoryStore(root);
    const peers = onHosts(peersOf(task), options.hosts ?? ((place) => place));
    const store = new PeersStore({ peers, directory, replicas: options.replicas });
    members.push({ task, place: placeOf(task.task), root, store });
  }
  const everybody = members.map(({ task }) => task.task);
  for (const { task } of members) await task.waitFor(everybody, { timeoutMs: PATIENCE_MS });
  return {
    members,
    at: (place) => members.find((member) => member.place === place)!,
    close: async () => {
      await Promise.all(members.map(({ task }) => task.leave({ timeoutMs: 500 })));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Tasks of one machine presented as several hosts. */
function onHosts(peers: Peers, hostOf: (place: string) => string): Peers {
  const members = () => peers.members().map((member) => ({ ...member, host: hostOf(member.place) }));
  return { self: peers.self, members, blobs: (place) => peers.blobs(place) };
}

const leftovers = ({ members }: Crew) =>
  members.flatMap(({ root }) => (existsSync(join(root, RESERVED)) ? readdirSync(join(root, RESERVED)) : []));
const onDisk = ({ root }: Member, name: string) => join(root, name);
const holders = ({ members }: Crew, name: string) =>
  members.filter((member) => existsSync(onDisk(member, name))).map(({ place }) => place);

describeStore('peers', async () => {
  const crew = await crewOf(3);
  return {
    store: crew.members[0]!.store,
    other: crew.members[1]!.store,
    leftovers: () => leftovers(crew).length,
    close: crew.close,
  };
});

describe('places', () => {
  it('map to tasks and back', () => {
    expect(placeOf(taskId('ps', 12))).toBe('ps/12');
    expect(taskAt('ps/12')).toBe(taskId('ps', 12));
    for (const wrong of ['ps', 'ps/', 'ps/x', '/1', '']) {
      expect(() => taskAt(wrong)).toThrow(expect.objectContaining({ code: 'SHOAL_INVALID_ARGUMENT' }));
    }
  });
});

describe('peers', { timeout: 120_000 }, () => {
  let crew: Crew;
  const start = async (count: number, options?: CrewOptions) => {
    crew = await crewOf(count, options);
    return crew.members as [Member, Member, Member, Member];
  };
  afterEach(() => crew.close(), 60_000);

  it('store a blob here and on as many other tasks as replicas are requested, always the same ones', async () => {
    const [first] = await start(4, { replicas: 2 });
    const bytes = randomBytes(3_000_000);
    const result = await first.store.put('ckpt/a', chunksOf(bytes), { size: bytes.byteLength });
    expect(result).toMatchObject({ published: true, shortfall: 0, crc32c: crc32c(bytes) });
    expect(result.places).toHaveLength(3);
    expect([...result.places].sort()).toEqual(holders(crew, 'ckpt/a'));
    expect([...(await first.store.locate('ckpt/a'))].sort()).toEqual([...result.places].sort());
    for (const place of result.places) {
      expect(readFileSync(onDisk(crew.at(place), 'ckpt/a')).equals(bytes)).toBe(true);
      expect(await first.store.digest('ckpt/a', { place })).toEqual({
        size: bytes.byteLength,
        crc32c: crc32c(bytes),
      });
    }
    const again = await first.store.put('ckpt/b', Buffer.from('b'));
    expect([...again.places].sort()).toEqual([...result.places].sort());
  });

  it('read the source once for each copy', async () => {
    const [first] = await start(4, { replicas: 3 });
    const opened: number[] = [];
    const bytes = randomBytes(40_000_000);
    const source: BlobSource = (offset) => {
      opened.push(offset);
      return chunksOf(bytes, 1 << 20)(offset);
    };
    expect((await first.store.put('once', source)).shortfall).toBe(0);
    expect(opened).toEqual([0, 0, 0, 0]);
  });

  it('place replicas on other hosts, each on a different one while there are any', async () => {
    const hosts = { 'ps/0': 'A', 'ps/1': 'A', 'ps/2': 'B', 'ps/3': 'C' } as Record<string, string>;
    const [first] = await start(4, { replicas: 2, hosts: (place) => hosts[place]! });
    for (const folder of ['a', 'b', 'c', 'd', 'e']) {
      const { places } = await first.store.put(`${folder}/x`, Buffer.from('x'));
      expect([...places].sort()).toEqual(['ps/0', 'ps/2', 'ps/3']);
    }
  });

  it('add copies on other hosts first, and none of other bytes', async () => {
    const hosts = { 'ps/0': 'A', 'ps/1': 'A', 'ps/2': 'B', 'ps/3': 'C' } as Record<string, string>;
    const [first, second] = await start(4, { replicas: 0, hosts: (place) => hosts[place]! });
    const bytes = randomBytes(3_000_000);
    const { places: holders, crc32c: sum } = await first.store.put('ckpt/a', bytes);
    const more = await second.store.addCopies('ckpt/a', { holders, wanted: 3, crc32c: sum });
    expect([...more].sort()).toEqual(['ps/0', 'ps/2', 'ps/3']);
    expect([...(await first.store.locate('ckpt/a'))].sort()).toEqual(['ps/0', 'ps/2', 'ps/3']);
    const all = await second.store.addCopies('ckpt/a', { holders: more, wanted: 9, crc32c: sum });
    expect([...all].sort()).toEqual(['ps/0', 'ps/1', 'ps/2', 'ps/3']);

    await first.store.put('ckpt/b', bytes);
    expect(await second.store.addCopies('ckpt/b', { holders, wanted: 2, crc32c: sum ^ 1 })).toEqual(holders);
    expect(await first.store.locate('ckpt/b')).toEqual(holders);
  });

  it('use another task of the same host when there is no other host', async () => {
    const [first] = await start(3, { hosts: () => 'A' });
    const result = await first.store.put('x', Buffer.from('x'));
    expect(result.places).toHaveLength(2);
    expect(result.shortfall).toBe(0);
  });

  it('report the missing replicas when there is no other task', async () => {
    const [lonely] = await start(1);
    expect(await lonely.store.put('x', Buffer.from('x'))).toMatchObject({ places: ['ps/0'], shortfall: 1 });
    const everywhere = await lonely.store.put('y', Buffer.from('y'), { copies: 'everywhere' });
    expect(everywhere).toMatchObject({ places: ['ps/0'], shortfall: 0 });
  });

  it('all store a blob that is put everywhere', async () => {
    const [, second] = await start(4);
    const result = await second.store.put('m/manifest', Buffer.from('m'), { copies: 'everywhere' });
    expect([...result.places].sort()).toEqual(['ps/0', 'ps/1', 'ps/2', 'ps/3']);
    expect(holders(crew, 'm/manifest')).toEqual(['ps/0', 'ps/1', 'ps/2', 'ps/3']);
    const [listing] = await listed(second.store);
    expect([...listing!.places].sort()).toEqual([...result.places].sort());
    await second.store.remove('m/manifest');
    expect(holders(crew, 'm/manifest')).toEqual([]);
  });

  it('continue with another candidate when one dies during a put', async () => {
    const [first] = await start(3);
    const [, chosen] = (await first.store.put('ckpt/probe', Buffer.from('x'))).places;
    const bytes = randomBytes(60_000_000);
    let isKilled = false;
    const source: BlobSource = async function* (offset) {
      for await (const chunk of chunksOf(bytes, 1 << 20)(offset)) {
        if (offset === 0 && !isKilled && chunk.byteOffset - bytes.byteOffset > 30_000_000) {
          isKilled = true;
          await crew.at(chosen!).task.leave({ timeoutMs: 100 });
        }
        yield chunk;
      }
    };
    const result = await first.store.put('ckpt/big', source, { size: bytes.byteLength });
    expect(isKilled).toBe(true);
    expect(result).toMatchObject({ shortfall: 0, crc32c: crc32c(bytes) });
    expect(result.places).not.toContain(chosen);
    for (const place of result.places) {
      expect(readFileSync(onDisk(crew.at(place), 'ckpt/big')).equals(bytes)).toBe(true);
    }
  });

  it('fail a put and leave no copy when every other task fails', async () => {
    const [first] = await start(3, { maxBlobBytes: 1000 });
    await expect(first.store.put('ckpt/x', randomBytes(5000))).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      message: expect.stringMatching(/no copy on another task.*ps\/[12].*ps\/[12]/s),
    });
    expect(holders(crew, 'ckpt/x')).toEqual([]);
    expect(leftovers(crew)).toEqual([]);
    expect((await first.store.put('ckpt/y', randomBytes(500))).shortfall).toBe(0);
  });

  it('skip a task whose disk is full', async () => {
    const [first] = await start(3);
    const [, chosen] = (await first.store.put('ckpt/probe', Buffer.from('x'))).places;
    const real = peersOf(first.task);
    const blobs = (place: string): PeerBlobs => ({
      ...blobsOf(real, place),
      // One of them receives a larger size than its disk can store.
      write: (name, source, options) =>
        real.blobs(place).write(name, source, { ...options, ...(place === chosen && { size: 2 ** 42 }) }),
    });
    const store = storeOf(first, { ...real, blobs });
    const result = await store.put('ckpt/x', randomBytes(2_000_000));
    expect(result.shortfall).toBe(0);
    expect(result.places).not.toContain(chosen);
    expect(leftovers(crew)).toEqual([]);
    const [alone] = crew.members.filter(({ place }) => place !== 'ps/0' && place !== chosen);
    await alone!.task.leave();
    await expect(store.put('ckpt/y', randomBytes(1000))).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
    expect(holders(crew, 'ckpt/y')).toEqual([]);
  });

  it('use the last task with free space when several are full', async () => {
    const [first] = await start(5);
    const [, chosen] = (await first.store.put('ckpt/probe', Buffer.from('x'))).places;
    const real = peersOf(first.task);
    const others = crew.members.map(({ place }) => place).filter((place) => place !== 'ps/0');
    const room = others.find((place) => place !== chosen)!;
    const blobs = (place: string): PeerBlobs => ({
      ...blobsOf(real, place),
      write: (name, source, options) =>
        real.blobs(place).write(name, source, { ...options, ...(place !== room && { size: 2 ** 42 }) }),
    });
    const result = await storeOf(first, { ...real, blobs }).put('ckpt/x', randomBytes(2_000_000));
    expect(result).toMatchObject({ shortfall: 0, places: ['ps/0', room] });
    expect(holders(crew, 'ckpt/x').sort()).toEqual(['ps/0', room].sort());
    expect(leftovers(crew)).toEqual([]);
  });

  it('skip a task whose disk fails', async () => {
    const [first] = await start(3);
    const [, chosen] = (await first.store.put('ckpt/probe', Buffer.from('x'))).places;
    const broken = crew.at(chosen!);
    rmSync(broken.root, { recursive: true, force: true });
    writeFileSync(broken.root, 'no directory any more');
    const result = await first.store.put('ckpt/x', randomBytes(2_000_000));
    expect(result.shortfall).toBe(0);
    expect(result.places).not.toContain(chosen);
    rmSync(broken.root);
    mkdirSync(broken.root);
  });

  it('serve a replica when the own copy is gone', async () => {
    const [first] = await start(3);
    const bytes = randomBytes(3_000_000);
    await first.store.put('gone', bytes);
    rmSync(onDisk(first, 'gone'));
    expect((await readAll(first.store, 'gone')).equals(bytes)).toBe(true);
    expect((await readAll(first.store, 'gone', { start: 1_500_000 })).equals(bytes.subarray(1_500_000))).toBe(
      true,
    );
    expect(await first.store.locate('gone')).toHaveLength(1);
    await expect(readAll(first.store, 'gone', { place: 'ps/0' })).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
    });
  });

  it('continue with another copy when one fails during a read', async () => {
    const [first] = await start(3, { replicas: 2 });
    const bytes = randomBytes(20_000_000);
    await first.store.put('cut', bytes);
    const got: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of first.store.read('cut')) {
      got.push(chunk);
      size += chunk.byteLength;
      if (size === chunk.byteLength) truncateSync(onDisk(first, 'cut'), 8_000_000);
    }
    expect(Buffer.concat(got).equals(bytes)).toBe(true);
  });

  it('continue with another copy when a task dies during a read', async () => {
    const [first] = await start(3, { replicas: 2 });
    const bytes = randomBytes(40_000_000);
    await first.store.put('dying', bytes);
    rmSync(onDisk(first, 'dying'));
    const real = peersOf(first.task);
    const asked: string[] = [];
    const blobs = (place: string): PeerBlobs => ({
      ...blobsOf(real, place),
      read: (name, options) => {
        asked.push(place);
        return real.blobs(place).read(name, options);
      },
    });
    const got: Uint8Array[] = [];
    for await (const chunk of storeOf(first, { ...real, blobs }).read('dying')) {
      got.push(chunk);
      if (got.length === 1) await crew.at(asked[0]!).task.leave({ timeoutMs: 100 });
    }
    expect(Buffer.concat(got).equals(bytes)).toBe(true);
    expect(new Set(asked).size).toBe(2);
  });

  it('reveal a damaged copy by its digest', async () => {
    const [first] = await start(2);
    const bytes = randomBytes(100_000);
    const { places, crc32c: sum } = await first.store.put('lie', bytes);
    const liar = crew.at(places[1]!);
    const changed = Buffer.from(bytes);
    changed[50_000]! ^= 1;
    writeFileSync(onDisk(liar, 'lie'), changed);
    const digests = await Promise.all(places.map((place) => first.store.digest('lie', { place })));
    expect(digests.map((digest) => digest.crc32c === sum)).toEqual([true, false]);
    const viaLiar = await readAll(first.store, 'lie', { place: liar.place });
    expect(crc32c(viaLiar)).toBe(digests[1]!.crc32c);
    await first.store.copy('lie', liar.place);
    expect((await first.store.digest('lie', { place: liar.place })).crc32c).toBe(sum);
  });

  it('make another copy at a given place', async () => {
    const [first, second] = await start(4);
    const bytes = randomBytes(5_000_000);
    const { places } = await first.store.put('more', bytes);
    const lacking = crew.members.map(({ place }) => place).filter((place) => !places.includes(place));
    for (const place of lacking) await second.store.copy('more', place);
    expect(holders(crew, 'more')).toEqual(['ps/0', 'ps/1', 'ps/2', 'ps/3']);
    rmSync(onDisk(second, 'more'), { force: true });
    await second.store.copy('more', 'ps/1');
    expect(readFileSync(onDisk(second, 'more')).equals(bytes)).toBe(true);
    await expect(second.store.copy('nothing', 'ps/0')).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
    await expect(second.store.copy('more', 'ps/9')).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  });

  it('keep no copy of a replaced blob', async () => {
    const [first, second] = await start(4);
    const { places } = await first.store.put('v', Buffer.from('one'));
    const lacking = crew.members.map(({ place }) => place).filter((place) => !places.includes(place));
    for (const place of lacking) await second.store.copy('v', place);
    const result = await first.store.put('v', Buffer.from('three'));
    expect([...result.places].sort()).toEqual(holders(crew, 'v'));
    for (const member of crew.members) expect((await readAll(member.store, 'v')).toString()).toBe('three');
  });

  it('remove the copy of one place', async () => {
    const [first] = await start(2);
    await first.store.put('x', Buffer.from('x'));
    await first.store.remove('x', { place: 'ps/1' });
    expect(await first.store.locate('x')).toEqual(['ps/0']);
  });

  it('that hang do not block a put', async () => {
    const [first] = await start(2);
    const real = peersOf(first.task);
    const blobs = (place: string): PeerBlobs => ({
      ...blobsOf(real, place),
      write: async (_name, source, { signal } = {}) => {
        await (source as BlobSource)(0)[Symbol.asyncIterator]().next();
        return new Promise((_, fail) => signal!.addEventListener('abort', () => fail(signal!.reason)));
      },
    });
    const store = storeOf(first, { ...real, blobs });
    const bytes = randomBytes(40_000_000);
    await expect(store.put('hang', chunksOf(bytes, 1 << 20), { timeoutMs: 500 })).rejects.toThrow(
      /made no progress for 500 ms/,
    );
    expect(holders(crew, 'hang')).toEqual([]);
    expect(leftovers(crew)).toEqual([]);
  });
});

/** The blobs of a task with some methods replaced. */
function blobsOf(peers: Peers, place: string): PeerBlobs {
  const blobs = peers.blobs(place);
  return {
    write: blobs.write.bind(blobs),
    read: blobs.read.bind(blobs),
    stat: blobs.stat.bind(blobs),
    digest: blobs.digest.bind(blobs),
    list: blobs.list.bind(blobs),
    remove: blobs.remove.bind(blobs),
  };
}

const storeOf = ({ root }: Member, peers: Peers) =>
  new PeersStore({ peers: onHosts(peers, (place) => place), directory: new DirectoryStore(root) });
