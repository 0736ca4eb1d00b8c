/**
 * Files that stay open between reads of them, until all are closed. To open one takes several calls that wait for a thread
 * of Node's pool, of which there are four: behind reads of some MiB each that is longer than the reads themselves.
 */
import type { FileHandle } from 'node:fs/promises';

export interface KeptFile {
  readonly file: FileHandle;
  readonly size: number;
}

export class KeptFiles {
  readonly #files = new Map<string, Promise<KeptFile>>();

  /** The file of that name, opened unless it is. */
  open(name: string, open: () => Promise<KeptFile>): Promise<KeptFile> {
    let file = this.#files.get(name);
    if (!file) {
      file = open();
      this.#files.set(name, file);
      // Whoever asked is told; the next one may have more luck.
      file.catch(() => this.#files.delete(name));
    }
    return file;
  }

  /** Nobody waits for it: on a disk that hangs a close takes for ever. */
  close(): void {
    for (const opening of this.#files.values()) opening.then(({ file }) => file.close()).catch(() => {});
    this.#files.clear();
  }
}
