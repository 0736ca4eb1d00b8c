/**
 * The disks of all tasks as somebody sees them who is none of the tasks: an operator with a terminal. It speaks for one
 * task after the other, so that what it puts lies as if a task had put it, and each blob has another home.
 */
import { isShoalError, ShoalError } from '../errors/errors.js';
import { type PeerBlobs, type Peers, ranked } from './peers.js';
import { type OwnDisk, PeersStore } from './peers-store.js';
import type { BlobSource, PutOptions, PutResult } from './store.js';

export interface OutsideStoreOptions {
  readonly places: Pick<Peers, 'members' | 'blobs'>;
  /** The place that is asked first. */
  readonly nearest: string;
  /** Copies beside the first one. */
  readonly replicas?: number | undefined;
}

export class OutsideStore extends PeersStore {
  readonly #options: OutsideStoreOptions;

  constructor(options: OutsideStoreOptions) {
    super(seenFrom(options, options.nearest));
    this.#options = options;
  }

  override async put(
    name: string,
    source: BlobSource | Uint8Array,
    options: PutOptions = {},
  ): Promise<PutResult> {
    const alive = this.#options.places.members().filter((member) => member.alive);
    let problem: unknown;
    for (const { place } of ranked(name, alive)) {
      try {
        return await new PeersStore(seenFrom(this.#options, place)).put(name, source, options);
      } catch (error) {
        if (!isOfThePlace(error) || options.signal?.aborted) throw error;
        problem = error;
      }
    }
    throw problem ?? new ShoalError('SHOAL_UNREACHABLE', `no task can take blob ${name}`);
  }
}

function isOfThePlace(error: unknown): boolean {
  return ['SHOAL_UNREACHABLE', 'SHOAL_TIMEOUT', 'SHOAL_NO_SPACE'].some(
    (code) => isShoalError(error) && error.code === code,
  );
}

function seenFrom({ places, replicas }: OutsideStoreOptions, self: string) {
  const peers: Peers = {
    self,
    members: () => places.members(),
    blobs: (place) => places.blobs(place),
  };
  return { peers, replicas, directory: remoteDisk(places.blobs(self), self) };
}

/** The disk of a task, through its agent. What is staged there has its name at once; discarding it removes it. */
function remoteDisk(blobs: PeerBlobs, place: string): OwnDisk {
  const here = <B extends object>(blob: B) => ({ ...blob, places: [place] });
  return {
    put: async (name, source, options) => ({
      ...here(await blobs.write(name, source, options)),
      shortfall: 0,
    }),
    stage: async (name, chunks, { size, signal, timeoutMs, crc32c } = {}) => {
      const source = onePass(chunks, `the way to ${place} broke while blob ${name} was sent there`);
      const digest = await blobs.write(name, source, { size, signal, timeoutMs, crc32c });
      return { ...digest, isReadBack: false, commit: async () => true, discard: () => blobs.remove(name) };
    },
    read: (name, options) => blobs.read(name, options) as AsyncGenerator<Uint8Array>,
    stat: async (name, options) => {
      const blob = await blobs.stat(name, options);
      return blob && here(blob);
    },
    digest: (name, options) => blobs.digest(name, options),
    list: async function* (prefix) {
      for await (const blob of blobs.list(prefix)) yield here(blob);
    },
    remove: (name, options) => blobs.remove(name, options),
    // The task sees to its own disk.
    sweep: async () => 0,
    close: async () => {},
  };
}

/** Chunks that are there once, as a source: whoever asks for them again must begin with another put. */
function onePass(chunks: AsyncIterable<Uint8Array>, why: string): BlobSource {
  let isTaken = false;
  return (offset) => {
    if (isTaken || offset !== 0) throw new ShoalError('SHOAL_UNREACHABLE', why);
    isTaken = true;
    return chunks;
  };
}
