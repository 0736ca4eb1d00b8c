/** The stores that a task opens by their URL, each once: the disks of all tasks, a directory, or the disk of one task. */

import type { Log } from '../../../base/text/log.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';
import { peersOf } from '../../../distributed/cluster/task/peers.js';
import { DirectoryStore, openFileStore } from '../../../distributed/store/disk/directory-store.js';
import { PeersStore } from '../../../distributed/store/peers/peers-store.js';
import { PlaceStore, placeOfUrl } from '../../../distributed/store/peers/place-store.js';
import type { Store } from '../../../distributed/store/store.js';

export interface TaskStoresOptions {
  /** The directory whose blobs the agent serves. */
  readonly directory: string;
  /** The number of copies of every shard on other hosts. */
  readonly replicas: number;
  readonly log: Log;
}

export class TaskStores {
  readonly #task: ClusterTask;
  readonly #options: TaskStoresOptions;
  readonly #open = new Map<string, Store>();

  constructor(task: ClusterTask, options: TaskStoresOptions) {
    this.#task = task;
    this.#options = options;
  }

  /** Opens a store by its URL: `peers:`, `file:DIRECTORY`, or `place:` for the disk of one task. */
  get(url = 'peers:'): Store {
    const known = this.#open.get(url);
    if (known) return known;
    const directory = new DirectoryStore(this.#options.directory);
    const peers = peersOf(this.#task);
    const place = placeOfUrl(url);
    // The URL differs for each export, and the store holds nothing open.
    if (place) return new PlaceStore({ directory, peers, ...place });
    const { replicas, log } = this.#options;
    const store = url === 'peers:' ? new PeersStore({ directory, peers, replicas, log }) : openFileStore(url);
    this.#open.set(url, store);
    return store;
  }

  async close(): Promise<void> {
    for (const store of this.#open.values()) await store.close();
  }
}
