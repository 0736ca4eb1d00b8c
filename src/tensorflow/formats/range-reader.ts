/**
 * The input of a format reader: byte ranges of named files, from a directory or from a store on other machines.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { LentBytes } from '../../base/bytes/lent-bytes.js';
import { messageOf, ShoalError } from '../../base/errors/errors.js';

export interface RangeReader {
  /** The size of a file; throws SHOAL_NOT_FOUND if it does not exist. */
  size(file: string): Promise<number>;
  /**
   * Exactly `length` bytes at `offset`, or an error. With `into` (of that length) the reader may write the bytes there
   * and return `into`, which saves a copy.
   */
  read(file: string, offset: number, length: number, into?: Uint8Array): Promise<Uint8Array>;
  /**
   * The same bytes in consecutive chunks, each with its distance from `offset` and valid until `take` returns; for
   * readers that receive chunks anyway. `place` lends the target memory of a chunk, by distance and length, so that a
   * reader can write the chunk there directly. Fails with `Spoiled` if that memory may still be written to later.
   */
  pour?(
    file: string,
    offset: number,
    length: number,
    take: (bytes: Uint8Array, at: number) => void,
    place?: (at: number, length: number) => LentBytes,
  ): Promise<void>;
}

/** A read into memory was abandoned but may still write to it: the contents of the memory are undefined. */
export class Spoiled extends Error {}

/** Reads the files of a directory. Handles stay open until it is closed. */
export class DirectoryReader implements RangeReader {
  readonly #directory: string;
  readonly #handles = new Map<string, Promise<FileHandle>>();

  constructor(directory = '.') {
    this.#directory = directory;
  }

  async size(file: string): Promise<number> {
    return (await (await this.#open(file)).stat()).size;
  }

  async read(file: string, offset: number, length: number, into?: Uint8Array): Promise<Uint8Array> {
    const handle = await this.#open(file);
    const target = into ?? Buffer.allocUnsafeSlow(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await handle
        .read(target, done, length - done, offset + done)
        .catch((cause: unknown) => {
          throw unreachable(file, 'read', this.#directory, cause);
        });
      if (bytesRead === 0) {
        throw new ShoalError(
          'SHOAL_CORRUPT',
          `${file} ends at byte ${offset + done}, ${length - done} bytes before the end of the range`,
          {
            hint: 'the file is truncated; use another copy of it',
          },
        );
      }
      done += bytesRead;
    }
    return target;
  }

  async close(): Promise<void> {
    const handles = [...this.#handles.values()];
    this.#handles.clear();
    for (const opening of handles) {
      const handle = await opening.catch(() => undefined);
      await handle?.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #open(file: string): Promise<FileHandle> {
    const present = this.#handles.get(file);
    if (present) return present;
    const opening = open(join(this.#directory, file)).catch((cause: unknown) => {
      this.#handles.delete(file);
      throw unreachable(file, 'opened', this.#directory, cause);
    });
    this.#handles.set(file, opening);
    return opening;
  }
}

function unreachable(file: string, what: string, directory: string, cause: unknown): ShoalError {
  const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
  return new ShoalError(
    missing ? 'SHOAL_NOT_FOUND' : 'SHOAL_UNREACHABLE',
    `${file} cannot be ${what} in ${directory}: ${messageOf(cause)}`,
    { cause },
  );
}
