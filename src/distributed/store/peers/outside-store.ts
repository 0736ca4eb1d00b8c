/**
 * The disks of all tasks, for an operator outside the cluster. It writes each blob as if one of the tasks had, a
 * different one for each blob.
 */
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { BlobSource, PutOptions, PutResult } from '../store.js';
import { type Peers, ranked } from './peers.js';
import { PeersStore } from './peers-store.js';
import { remoteDisk } from './remote-disk.js';

export interface OutsideStoreOptions {
  readonly places: Pick<Peers, 'members' | 'blobs'>;
  /** The place to read from first. */
  readonly nearest: string;
  /** The number of additional copies; default: 1. */
  readonly replicas?: number;
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
        if (!isPlaceFailure(error) || options.signal?.aborted) throw error;
        problem = error;
      }
    }
    throw problem ?? new ShoalError('SHOAL_UNREACHABLE', `no task is alive to store blob ${name}`);
  }
}

function isPlaceFailure(error: unknown): boolean {
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
