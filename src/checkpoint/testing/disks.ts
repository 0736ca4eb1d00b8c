/**
 * The disks of several tasks in one process, as the peers store sees them: real directories, without agents in between.
 * A disk can be taken away, be full, give other bytes than it has, or fail with an error of the system.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ShoalError } from '../../errors/errors.js';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import type { PeerBlobs, Peers } from '../../store/peers/peers.js';
import { PeersStore } from '../../store/peers/peers-store.js';
import { guarded, sourceOf } from '../../store/sources.js';
import type {
  BlobDigest,
  BlobInfo,
  PlaceOptions,
  PutOptions,
  ReadIntoOptions,
  ReadOptions,
  StoreCallOptions,
} from '../../store/store.js';

export interface Disk {
  readonly place: string;
  readonly root: string;
  /** Nobody can reach it. */
  isAway: boolean;
  /** Blobs that it has no room for. */
  isFull: (name: string) => boolean;
  /** What it gives instead of the bytes that it has; it says that nothing is wrong. */
  lies: ((bytes: Uint8Array, name: string) => Uint8Array) | undefined;
  /** Blobs of which a bit is flipped on the way to the disk. */
  rots: (name: string) => boolean;
  /** Blobs that it can not read (or not even look at) until they are written anew: EIO. */
  readonly broken: Map<string, 'read' | 'look'>;
  /** Called when a blob has been written. */
  onWritten: ((name: string) => void) | undefined;
  /** Called before each answer of some bytes of a blob. */
  onRead: ((name: string) => Promise<void> | void) | undefined;
}

/** A disk as its own task has it: as full as it is to others. */
class FullDirectory extends DirectoryStore {
  readonly #disk: () => Disk;

  constructor(root: string, disk: () => Disk) {
    super(root);
    this.#disk = disk;
  }

  /** Fails where the disk is broken; in reads alone, or in looks too. */
  async #look(name: string, isRead: boolean): Promise<void> {
    const broken = this.#disk().broken.get(name);
    if (broken === 'look' || (isRead && broken === 'read')) await inputOutputError();
  }

  override async *read(name: string, options: ReadOptions = {}): AsyncGenerator<Uint8Array> {
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

  override async stat(name: string, options: PlaceOptions = {}): Promise<BlobInfo | undefined> {
    await this.#look(name, false);
    return super.stat(name, options);
  }

  override async digest(name: string, options: PlaceOptions = {}): Promise<BlobDigest> {
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

/** The error of a disk that can not read: a real one, where the system has a file that gives it. */
async function inputOutputError(): Promise<never> {
  if (process.platform === 'linux') {
    await using memory = await open('/proc/self/mem');
    // Nothing is mapped at the address 0.
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

  /** Puts a copy on one disk and leaves the others as they are. */
  async put(place: string, blob: string, bytes: Uint8Array): Promise<void> {
    await new DirectoryStore(this.at(place).root).put(blob, bytes);
  }

  /** All disks as the task at a place sees them. */
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
        if (sum !== staged.crc32c) throw new ShoalError('SHOAL_CORRUPT', `${name} is not what was meant`);
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
    stat: async (name) => reach().stat(name),
    digest: async (name, options?: StoreCallOptions) => reach().digest(name, options),
    list: async function* (prefix) {
      yield* reach().list(prefix);
    },
    remove: async (name) => reach().remove(name),
  };
}
