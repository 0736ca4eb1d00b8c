/** The files of checkpoints on the disk of one task, as far as their names and sizes. */
import type { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import type { StoredFile } from '../state.js';

const MOST_FILES = 2000;
/** Listing costs a system call for each file. */
const EVERY_MS = 3000;

export class DiskFiles {
  readonly #store: DirectoryStore;
  readonly #prefix: string;
  #listedAt = Number.NEGATIVE_INFINITY;
  #listed: Promise<readonly StoredFile[]> = Promise.resolve([]);

  constructor(store: DirectoryStore, namespace: string) {
    this.#store = store;
    this.#prefix = namespace === '' ? '' : `${namespace}/`;
  }

  list(): Promise<readonly StoredFile[]> {
    if (performance.now() - this.#listedAt > EVERY_MS) {
      this.#listedAt = performance.now();
      // A disk that cannot be read has no files: its copies are shown as missing.
      this.#listed = this.#read().catch(() => []);
    }
    return this.#listed;
  }

  async #read(): Promise<readonly StoredFile[]> {
    const files: StoredFile[] = [];
    for await (const { name, size } of this.#store.list(this.#prefix)) {
      files.push({ name, size });
      if (files.length >= MOST_FILES) break;
    }
    return files;
  }
}
