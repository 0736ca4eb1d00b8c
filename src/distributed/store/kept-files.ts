/**
 * A cache of open files. Opening a file takes several calls on Node's thread pool, which has four threads by default:
 * queued behind reads of some MiB each, that takes longer than the reads themselves.
 */
import type { FileHandle } from 'node:fs/promises';

export interface KeptFile {
  readonly file: FileHandle;
  readonly size: number;
}

export class KeptFiles {
  readonly #files = new Map<string, Promise<KeptFile>>();

  /** The cached file of that name, opened if needed. */
  open(name: string, open: () => Promise<KeptFile>): Promise<KeptFile> {
    let file = this.#files.get(name);
    if (!file) {
      file = open();
      this.#files.set(name, file);
      // The caller gets the error; the next call retries.
      file.catch(() => this.#files.delete(name));
    }
    return file;
  }

  /** Does not wait: on a disk that hangs, a close never returns. */
  close(): void {
    for (const opening of this.#files.values()) opening.then(({ file }) => file.close()).catch(() => {});
    this.#files.clear();
  }
}
