/**
 * The disk of one task, and no other: where the shards of an export are collected. A ps writes to it through the agent of
 * that task, and the task itself directly.
 */
import type { DirectoryStore } from './directory-store.js';
import type { Peers } from './peers.js';
import { PeersStore } from './peers-store.js';
import { remoteDisk } from './remote-disk.js';

const SCHEME = 'place:';

export interface PlaceStoreOptions {
  readonly peers: Peers;
  /** The task whose disk it is: `worker/1`. */
  readonly place: string;
  /** The disk of this task. */
  readonly directory: DirectoryStore;
}

export class PlaceStore extends PeersStore {
  override readonly url: string;

  constructor({ peers, place, directory }: PlaceStoreOptions) {
    const isOwn = place === peers.self;
    super({
      replicas: 0,
      directory: isOwn ? directory : remoteDisk(peers.blobs(place), place),
      peers: {
        ...peers,
        self: place,
        members: () => peers.members().filter((member) => member.place === place),
        // The receiving agent decides whether this task may write there.
        ...(isOwn ? {} : { refusal: undefined }),
      },
    });
    this.url = placeUrl(place);
  }
}

export const placeUrl = (place: string): string => SCHEME + place;

/** The place of such an address; undefined for the address of another store. */
export function placeOfUrl(url: string): string | undefined {
  return url.startsWith(SCHEME) ? url.slice(SCHEME.length) : undefined;
}
