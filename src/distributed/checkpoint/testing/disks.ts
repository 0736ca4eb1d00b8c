/**
 * The disks of several tasks in one process, for the peers store: real directories, without agents. A disk can be
 * unreachable or full, return wrong bytes, or fail with a system error.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import type { PeerBlobs, Peers } from '../../store/peers/peers.js';
import { PeersStore } from '../../store/peers/peers-store.js';
import { guarded, sourceOf } from '../../store/sources.js';
import type {
  BlobDigest,
  BlobInfo,
  PlacedCallOptions,
  PutOptions,
  ReadIntoOptions,
  StoreCallOptions,
  StoreReadOptions,
} from '../../store/store.js';

export interface Disk {
  readonly place: string;
  readonly root: string;
  /** Whether it is unreachable. */
  isAway: boolean;
  /** It fails questions that wait for a shorter time. */
  answersMs: number;
  /** Blobs for which it has no space. */
  isFull: (name: string) => boolean;
  /** Replaces the bytes that it returns, without an error. */
  lies: ((bytes: Uint8Array, name: string) => Uint8Array) | undefined;
  /** Blobs that are written with a flipped bit. */
  rots: (name: string) => boolean;
  /** Blobs that fail with EIO when read (or even on stat), until they are written again. */
  readonly broken: Map<string, 'read' | 'look'>;
  /** Called after a blob was written. */
  onWritten: ((name: string) => void) | undefined;
  /** Called before each chunk of a blob is returned. */
  onRead: ((name: string) => Promise<void> | void) | undefined;
}

/** The local view of a disk, with the same faults. */
class FullDirectory extends DirectoryStore {
  readonly #disk: () => Disk;

  constructor(root: string, disk: () => Disk) {
    super(root);
    this.#disk = disk;
  }

  /** Fails if the blob is broken: for reads only, or for stat too. */
  async #look(name: string, isRead: boolean): Promise<void> {
    const broken = this.#disk().broken.get(name);
    if (broken === 'look' || (isRead && broken === 'read')) await inputOutputError();
  }

  override async *read(name: string, options: StoreReadOptions = {}): AsyncGenerator<Uint8Array> {
    await this.#look(name, true);
    yield* super.read(name, options);
  }

  override async readInto(name: string, into: Uint8Array, options: ReadIntoOptions = {}): Promise<void> {
    await this.#look(name, true).catch((error: unknown) => {
      options.onIdle?.();
      throw error;
    });
    await super.readInto(name, into, options);
  }

  override async stat(name: string, options: PlacedCallOptions = {}): Promise<BlobInfo | undefined> {
    await this.#look(name, false);
    return super.stat(name, options);
  }

  override async digest(name: string, options: PlacedCallOptions = {}): Promise<BlobDigest> {
    await this.#look(name, true);
    return super.digest(name, options);
  }

  override async *list(prefix = ''): AsyncGenerator<BlobInfo> {
    for await (const blob of super.list(prefix)) {
      await this.#look(blob.name, false);
      yield blob;
    }
  }

  override async stage(
    name: string,
    chunks: AsyncIterable<Uint8Array>,
    options: Omit<PutOptions, 'ifAbsent'> = {},
  ) {
    const disk = this.#disk();
    if (disk.isFull(name)) throw noRoom(name, disk.place);
    const staged = await super.stage(name, disk.rots(name) ? rotten(chunks) : chunks, options);
    return {
      ...staged,
      commit: async (ifAbsent?: boolean) => {
        const published = await staged.commit(ifAbsent);
        disk.broken.delete(name);
        disk.onWritten?.(name);
        return published;
      },
    };
  }
}

/** An EIO error; on Linux a real one. */
async function inputOutputError(): Promise<never> {
  if (process.platform === 'linux') {
    await using memory = await open('/proc/self/mem');
    // Address 0 is not mapped.
    await memory.read(Buffer.alloc(1), 0, 1, 0);
  }
  throw Object.assign(new Error('EIO: i/o error, read'), { errno: -5, code: 'EIO', syscall: 'read' });
}

const noRoom = (name: string, place: string) =>
  new ShoalError('SHOAL_NO_SPACE', `no room for blob ${name} on ${place}`);

async function* rotten(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk);
    if (bytes.length > 0) bytes[bytes.length >> 1]! ^= 1;
    yield bytes;
  }
}

export class Disks implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'shoal-disks-'));
  readonly all: readonly Disk[];

  constructor(places: readonly string[]) {
    this.all = places.map((place) => ({
      place,
      root: join(this.folder, place.replace('/', '-')),
      isAway: false,
      answersMs: 0,
      isFull: () => false,
      lies: undefined,
      onRead: undefined,
      onWritten: undefined,
      rots: () => false,
      broken: new Map(),
    }));
  }

  at(place: string): Disk {
    return this.all.find((disk) => disk.place === place) as Disk;
  }

  /** The path of a blob on a disk. */
  path(place: string, blob: string): string {
    return join(this.at(place).root, blob);
  }

  /** Puts a copy on one disk only. */
  async put(place: string, blob: string, bytes: Uint8Array): Promise<void> {
    await new DirectoryStore(this.at(place).root).put(blob, bytes);
  }

  /** The store of the task at a place. */
  store(self: string, replicas = 1): PeersStore {
    const peers: Peers = {
      self,
      members: () => this.all.map(({ place, isAway }) => ({ place, host: place, alive: !isAway })),
      blobs: (place) => blobsOf(this.at(place)),
    };
    const own = this.at(self);
    return new PeersStore({ peers, replicas, directory: new FullDirectory(own.root, () => own) });
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function blobsOf(disk: Disk): PeerBlobs {
  const directory = new FullDirectory(disk.root, () => disk);
  const reach = () => {
    if (disk.isAway) throw new ShoalError('SHOAL_UNREACHABLE', `${disk.place} does not answer`);
    return directory;
  };
  return {
    write: async (name, source, { crc32c, ifAbsent, ...options } = {}) => {
      const staged = await reach().stage(name, sourceOf(source)(0), options);
      try {
        const sum = (await crc32c?.()) ?? staged.crc32c;
        if (sum !== staged.crc32c) throw new ShoalError('SHOAL_CORRUPT', `${name} has a wrong checksum`);
      } catch (error) {
        await staged.discard();
        throw error;
      }
      const { size, crc32c: found } = staged;
      return { published: await staged.commit(ifAbsent), size, crc32c: found };
    },
    read: (name, { attempts: _, ...options } = {}) => {
      const chunks = async function* () {
        for await (const chunk of reach().read(name, options)) {
          await disk.onRead?.(name);
          reach();
          yield disk.lies?.(chunk, name) ?? chunk;
        }
      };
      return guarded(chunks(), `reading ${name} at ${disk.place}`, options);
    },
    stat: async (name, { timeoutMs = Number.POSITIVE_INFINITY } = {}) => {
      if (timeoutMs < disk.answersMs)
        throw new ShoalError('SHOAL_TIMEOUT', `${disk.place} did not answer in time`);
      return reach().stat(name);
    },
    digest: async (name, options?: StoreCallOptions) => reach().digest(name, options),
    list: async function* (prefix) {
      yield* reach().list(prefix);
    },
    remove: async (name) => reach().remove(name),
  };
}
