/**
 * A store in one directory, on a local disk or on NFS. A blob is written to a temporary file, flushed, and then moved
 * into place: by rename, or by link for `ifAbsent`, which succeeds for exactly one of several writers, also across
 * machines.
 */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { withDeadline } from '../../../base/async/deadline.js';
import { invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { type BlobName, blobName, RESERVED } from '../blob-names.js';
import { guarded, rangeWithin, refusePlace, sourceOf } from '../sources.js';
import {
  type BlobDigest,
  type BlobInfo,
  type BlobListOptions,
  type BlobSource,
  HERE,
  type PlacedCallOptions,
  type PutOptions,
  type PutResult,
  type ReadIntoOptions,
  type Store,
  type StoreCallOptions,
  type StoreReadOptions,
} from '../store.js';
import { isAligned } from './aligned.js';
import { codeOf, digestBlob, eachBlob, openBlob, readRange, removeBlob, statBlob } from './blob-disk.js';
import { DirectWriter, openDirect } from './direct-writer.js';
import { DiskWriter } from './disk-writer.js';
import {
  checkFreeSpace,
  isNoSpace,
  makePartialsDirectory,
  moveIntoPlace,
  noSpace,
  sweepPartials,
  UPLOAD_FILE,
} from './publish.js';
import { fillFrom } from './read-back.js';
import { tooFew } from './read-into.js';

/** A blob that is complete and durable, but not published. */
export interface StagedBlob extends BlobDigest {
  readonly isReadBack: boolean;
  /** Publishes the blob; false when `ifAbsent` found an existing one. */
  commit(ifAbsent?: boolean): Promise<boolean>;
  discard(): Promise<void>;
}

/** Larger blobs with a known sum bypass the page cache. */
const DIRECT_BYTES = 16 << 20;
const STALL_MS = 60_000;
const SWEEP_AFTER_MS = 3_600_000;
/** How long a failed put waits for its cleanup; on a disk that hangs, the sweep does it later. */
const CLEANUP_MS = 5000;

export class DirectoryStore implements Store {
  readonly kind = 'file';
  readonly root: string;
  readonly #writing = new Set<string>();

  constructor(root: string) {
    this.root = resolve(root);
  }

  get url(): string {
    return `file:${this.root}`;
  }

  async put(
    name: string,
    source: BlobSource | Uint8Array,
    { ifAbsent = false, ...options }: PutOptions = {},
  ): Promise<PutResult> {
    const size = source instanceof Uint8Array ? source.byteLength : options.size;
    const staged = await this.stage(name, sourceOf(source)(0), { ...options, size });
    const published = await staged.commit(ifAbsent);
    const { size: written, crc32c, isReadBack } = staged;
    const readBack = isReadBack ? [HERE] : [];
    return { published, size: written, crc32c, places: [HERE], shortfall: 0, readBack };
  }

  /** Writes a blob without publishing it. */
  async stage(
    name: string,
    chunks: AsyncIterable<Uint8Array>,
    options: Omit<PutOptions, 'ifAbsent'> = {},
  ): Promise<StagedBlob> {
    const named = blobName(name);
    const { signal, size, crc32c, timeoutMs = STALL_MS, readBack = false, lasting } = options;
    const what = `writing blob ${name} to ${this.url}`;
    const folder = join(this.root, RESERVED);
    const path = join(folder, `${randomUUID()}.part`);
    const soon = <T>(step: Promise<T>) => withDeadline(step, what, { signal, timeoutMs });
    let file: FileHandle | undefined;
    this.#writing.add(path);
    try {
      await soon(makePartialsDirectory(this.root));
      await checkFreeSpace(this.root, named, size ?? 0);
      const isLarge = (size ?? 0) >= DIRECT_BYTES && crc32c !== undefined;
      file = isLarge ? await openDirect(path) : undefined;
      const isDirect = file !== undefined;
      const access = readBack ? constants.O_RDWR : constants.O_WRONLY;
      file ??= await open(path, access | constants.O_CREAT | constants.O_EXCL, 0o666);
      const writer = isDirect
        ? new DirectWriter(file, { readBack, lasting })
        : new DiskWriter(file, { sums: crc32c === undefined, readBack });
      for await (const chunk of guarded(chunks, what, { signal, timeoutMs })) await soon(writer.write(chunk));
      if (size !== undefined && writer.position !== size) {
        throw new ShoalError('SHOAL_CORRUPT', `blob ${name} has ${writer.position} bytes, expected ${size}`);
      }
      await soon(writer.sync());
      const sum = crc32c?.() ?? (writer instanceof DiskWriter ? writer.crc32c : 0);
      const found = await soon(writer.readBack());
      if (found !== undefined && found !== sum) throw readBackMismatch(name, this.url);
      await file.close();
      return this.#staged(named, path, { size: writer.position, crc32c: sum, isReadBack: readBack });
    } catch (error) {
      await this.#cleanUp(path, file);
      throw isNoSpace(error) ? noSpace(this.root, name, error) : error;
    }
  }

  #staged(name: BlobName, path: string, written: Omit<StagedBlob, 'commit' | 'discard'>): StagedBlob {
    return {
      ...written,
      commit: async (ifAbsent = false) => {
        try {
          return await moveIntoPlace(this.root, name, path, ifAbsent);
        } catch (error) {
          await this.#cleanUp(path);
          throw error;
        } finally {
          this.#writing.delete(path);
        }
      },
      discard: () => this.#cleanUp(path),
    };
  }

  async #cleanUp(path: string, file?: FileHandle): Promise<void> {
    const cleaned = (async () => {
      await rm(path, { force: true });
      this.#writing.delete(path);
      await file?.close();
    })();
    // The original error is reported; the sweep removes what remains.
    await Promise.race([cleaned.catch(() => {}), delay(CLEANUP_MS, undefined, { ref: false })]);
  }

  async *read(name: string, options: StoreReadOptions = {}): AsyncGenerator<Uint8Array> {
    refusePlace(this.url, options.place, HERE);
    const { file, size } = await openBlob(this.root, blobName(name));
    try {
      const [start, end] = rangeWithin(name, size, options);
      const { signal, timeoutMs = STALL_MS } = options;
      const what = `reading blob ${name} of ${this.url}`;
      yield* guarded(readRange(file, start, end, signal), what, { signal, timeoutMs });
    } finally {
      // Not awaited: on a disk that hangs, pending reads never end.
      file.close().catch(() => {});
    }
  }

  async readInto(name: string, into: Uint8Array, options: ReadIntoOptions = {}): Promise<void> {
    const { start = 0, onIdle = () => {} } = options;
    let filling = Promise.resolve();
    const fill = (direct: boolean) =>
      this.#fill(name, into, options, direct, (promise) => {
        filling = promise;
      });
    try {
      refusePlace(this.url, options.place, HERE);
      // Some file systems accept opening a file for direct reads and refuse the reads.
      const isRefused =
        !isAligned(into, start) ||
        (await fill(true).catch((error: unknown) => {
          if (codeOf(error) !== 'EINVAL') throw error;
          return true;
        }));
      if (isRefused) await fill(false);
    } finally {
      filling.then(onIdle, onIdle);
    }
  }

  /** `onBegun` receives the read itself, which continues when the wait for it is aborted. */
  async #fill(
    name: string,
    into: Uint8Array,
    options: ReadIntoOptions,
    direct: boolean,
    onBegun: (reading: Promise<void>) => void,
  ): Promise<void> {
    const { start = 0, signal, timeoutMs = STALL_MS, kept } = options;
    const open = () => openBlob(this.root, blobName(name), { direct });
    const { file, size } = await (kept ? kept.open(`${this.root} ${name} ${direct}`, open) : open());
    try {
      const there = Math.max(0, size - start);
      if (there < into.byteLength) throw tooFew(there, into.byteLength);
      const reading = fillFrom(file, start, into);
      onBegun(reading);
      await withDeadline(reading, `reading blob ${name} of ${this.url}`, { signal, timeoutMs });
    } finally {
      if (!kept) file.close().catch(() => {});
    }
  }

  async locate(name: string): Promise<readonly string[]> {
    return (await this.stat(name))?.places ?? [];
  }

  async stat(name: string, { place }: PlacedCallOptions = {}): Promise<BlobInfo | undefined> {
    refusePlace(this.url, place, HERE);
    try {
      const { size, modifiedMs } = await statBlob(this.root, blobName(name));
      return { name, size, modifiedMs, places: [HERE] };
    } catch (error) {
      if (isShoalError(error, 'SHOAL_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  async digest(name: string, { place, signal }: PlacedCallOptions = {}): Promise<BlobDigest> {
    refusePlace(this.url, place, HERE);
    return digestBlob(this.root, blobName(name), signal);
  }

  async *list(prefix = '', { skip }: BlobListOptions = {}): AsyncGenerator<BlobInfo> {
    for await (const { name, size, modifiedMs } of eachBlob(this.root, prefix, { skip })) {
      yield { name, size, modifiedMs, places: [HERE] };
    }
  }

  async remove(name: string, { place }: PlacedCallOptions = {}): Promise<void> {
    refusePlace(this.url, place, HERE);
    await removeBlob(this.root, blobName(name));
  }

  async copy(name: string, to: string, _options?: StoreCallOptions): Promise<void> {
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `${this.url} keeps one copy: ${name} cannot be copied to ${to}`,
    );
  }

  async sweep({ olderThanMs = SWEEP_AFTER_MS }: { readonly olderThanMs?: number | undefined } = {}) {
    // An agent in this process tracks the uploads and sweeps them itself.
    const mayRemove = (path: string, file: string) => !this.#writing.has(path) && !UPLOAD_FILE.test(file);
    return sweepPartials(this.root, olderThanMs, Date.now(), mayRemove);
  }

  async close(): Promise<void> {}
}

/** The store of a URL such as `file:/a/directory`. */
export function openFileStore(url: string): DirectoryStore {
  const [, path] = /^file:(.+)$/.exec(url) ?? [];
  if (path !== undefined) return new DirectoryStore(path);
  throw invalid(`${JSON.stringify(url)} is not a store URL`, {
    hint: 'Stores are `peers:` (the disks of all tasks) and `file:/a/directory`.',
  });
}

export function readBackMismatch(name: string, place: string): ShoalError {
  return new ShoalError('SHOAL_CORRUPT', `blob ${name} at ${place} does not read back as it was written`, {
    hint: 'Its disk or memory may be failing.',
  });
}
