/**
 * Blobs received over the network. Bytes are appended to a partial file under an upload id; `publish` verifies size and
 * crc32c and moves the file into place atomically. An interrupted upload resumes at its offset, also after this process
 * crashed and restarted. A graceful shutdown removes all partial files.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { type BlobName, RESERVED } from '../blob-names.js';
import type { BlobDigest } from '../store.js';
import { type DiskBlob, digestBlob, readRange, statBlob } from './blob-disk.js';
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

export const UPLOAD_ID = /^[A-Za-z0-9_-]{8,64}$/;

interface Upload {
  /** Of the bytes received so far. */
  crc32c: number;
  offset: number;
  /** Whether a request uses the file. */
  busy: boolean;
  /** Aborts that request when another takes over. */
  stop: AbortController;
  /** Resolves when that request has released the file. */
  idle: Promise<void>;
}

export interface AppendOptions {
  /** The size of the complete blob: free space is checked first. */
  readonly size?: number;
  readonly maxBytes?: number;
}

export type Publication = BlobDigest & { readonly ifAbsent?: boolean };

export type Published = { readonly published: true; readonly blob: DiskBlob } | { readonly published: false };

/** How many uploads keep their sum in memory; for others it is recomputed from the file. */
const MAX_REMEMBERED = 1024;
const GRACE_MS = 1000;

export class Uploads {
  readonly #root: string;
  readonly #active = new Map<string, Upload>();
  #isClosed = false;

  constructor(root: string) {
    this.#root = root;
  }

  #partial(name: BlobName, id: string): string {
    if (!UPLOAD_ID.test(id)) throw invalid('an upload id must have 8 to 64 letters, digits, - or _');
    const key = createHash('sha256').update(`${id}\n${name}`).digest('hex');
    return join(this.#root, RESERVED, `${key}.part`);
  }

  /** The bytes of an upload received so far. */
  async offset(name: BlobName, id: string): Promise<number> {
    const path = this.#partial(name, id);
    const active = this.#active.get(path);
    if (active !== undefined) return active.offset;
    return (await lstat(path).catch(() => undefined))?.size ?? 0;
  }

  /** The same for a caller that will resume the upload: first aborts a request that is still writing. */
  async settledOffset(name: BlobName, id: string): Promise<number> {
    const path = this.#partial(name, id);
    // The request of a broken connection ends by itself once its bytes are written.
    await Promise.race([this.#active.get(path)?.idle, delay(GRACE_MS, undefined, { ref: false })]);
    await this.#free(path);
    return this.offset(name, id);
  }

  /**
   * Appends bytes at `offset`, which must equal `offset()`, or be 0 to start over. Bytes received before a failure of
   * the source are kept. Another append to the same upload aborts this one.
   */
  async append(
    name: BlobName,
    id: string,
    offset: number,
    source: (signal: AbortSignal) => AsyncIterable<Uint8Array>,
    options: AppendOptions = {},
  ): Promise<number> {
    const path = this.#partial(name, id);
    const { upload, release } = await this.#take(path, offset);
    let file: FileHandle | undefined;
    let writer: DiskWriter | undefined;
    try {
      if (offset !== upload.offset) {
        throw invalid(`the upload of ${name} is at offset ${upload.offset}, not ${offset}`, {
          hint: 'get its offset and resume from there',
        });
      }
      await checkFreeSpace(this.#root, name, options.size === undefined ? 0 : options.size - offset);
      file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o666);
      await file.truncate(offset);
      // One write at a time: after a crash, all bytes up to the length of the file are valid.
      writer = new DiskWriter(file, { position: offset, crc32c: upload.crc32c, depth: 1, keeps: true });
      const { maxBytes = Number.MAX_SAFE_INTEGER } = options;
      const end = Math.min(options.size ?? maxBytes, maxBytes);
      for await (const chunk of source(upload.stop.signal)) {
        upload.stop.signal.throwIfAborted();
        if (upload.offset + chunk.byteLength > end) throw invalid(`blob ${name} is larger than ${end} bytes`);
        await writer.write(chunk);
        upload.offset = writer.position;
        upload.crc32c = writer.crc32c;
      }
      await writer.drain();
      return upload.offset;
    } catch (error) {
      // Bytes received before a failure of the source are kept.
      await writer?.drain().catch(() => {});
      if (writer?.failed || isNoSpace(error)) {
        this.#active.delete(path);
        await rm(path, { force: true });
      }
      throw isNoSpace(error) ? noSpace(this.#root, name, error) : error;
    } finally {
      await file?.close();
      release();
    }
  }

  /** The blob, if this upload was already published. */
  async published(
    name: BlobName,
    id: string,
    { size, crc32c, ifAbsent = false }: Publication,
  ): Promise<DiskBlob | undefined> {
    const isDone =
      (size > 0 || !ifAbsent) &&
      !this.#active.has(this.#partial(name, id)) &&
      (await this.offset(name, id)) === 0 &&
      (await this.#isThere(name, { size, crc32c }));
    return isDone ? statBlob(this.#root, name) : undefined;
  }

  /** Publishes the upload as a blob. Idempotent. */
  async publish(name: BlobName, id: string, publication: Publication): Promise<Published> {
    const { size, crc32c, ifAbsent = false } = publication;
    const path = this.#partial(name, id);
    const before = await this.published(name, id, publication);
    if (before) return { published: true, blob: before };
    const { upload, release } = await this.#take(path, size);
    try {
      if (upload.offset !== size || upload.crc32c !== crc32c) {
        if (upload.offset >= size) await rm(path, { force: true });
        throw new ShoalError(
          'SHOAL_CORRUPT',
          `the upload of ${name} is corrupt: expected ${size} bytes with crc32c ${crc32c}, found ${upload.offset} with ${upload.crc32c}`,
          { hint: 'send it again' },
        );
      }
      // Nothing has created the file of an empty blob yet.
      const file = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o666);
      try {
        await file.datasync();
      } finally {
        await file.close();
      }
      if (!(await moveIntoPlace(this.#root, name, path, ifAbsent))) return { published: false };
      return { published: true, blob: await statBlob(this.#root, name) };
    } finally {
      this.#active.delete(path);
      release();
    }
  }

  async abandon(name: BlobName, id: string): Promise<void> {
    const path = this.#partial(name, id);
    const upload = this.#active.get(path);
    upload?.stop.abort();
    await upload?.idle;
    this.#active.delete(path);
    await rm(path, { force: true });
  }

  /** Removes the files of uploads without recent activity; returns how many. */
  sweep(olderThanMs: number, now = Date.now()): Promise<number> {
    return sweepPartials(this.#root, olderThanMs, now, (path, file) => {
      if (!UPLOAD_FILE.test(file) || this.#active.get(path)?.busy === true) return false;
      this.#active.delete(path);
      return true;
    });
  }

  /**
   * Aborts uploads in progress and removes all partial files, also those of an earlier process that was killed and whose
   * writers did not resume. Younger files may belong to a process that replaces this one.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(
      [...this.#active].map(async ([path, { stop, idle }]) => {
        stop.abort(closed());
        await idle;
        await rm(path, { force: true });
      }),
    );
    this.#active.clear();
    await this.sweep(Date.now() - performance.timeOrigin);
  }

  /** Aborts the request that uses the upload. */
  async #free(path: string): Promise<void> {
    for (let held = this.#active.get(path); held?.busy; held = this.#active.get(path)) {
      held.stop.abort(new ShoalError('SHOAL_ABORTED', 'another request has taken over this upload'));
      await held.idle;
    }
  }

  /** Aborts the request that uses the upload, then acquires it. */
  async #take(path: string, offset: number): Promise<{ upload: Upload; release: () => void }> {
    await this.#free(path);
    if (this.#isClosed) throw closed();
    const known = this.#active.get(path);
    const { promise, resolve } = withResolvers();
    const stop = new AbortController();
    const fresh = known === undefined || offset === 0;
    const upload: Upload = fresh
      ? { crc32c: 0, offset: 0, busy: true, stop, idle: promise }
      : Object.assign(known, { busy: true, stop, idle: promise });
    this.#active.set(path, upload);
    const release = () => {
      upload.busy = false;
      resolve();
      this.#forgetSome();
    };
    try {
      await makePartialsDirectory(this.#root);
      if (fresh && offset > 0) await recover(path, upload);
    } catch (error) {
      this.#active.delete(path);
      release();
      throw error;
    }
    return { upload, release };
  }

  #forgetSome(): void {
    for (const [path, { busy }] of this.#active) {
      if (this.#active.size <= MAX_REMEMBERED) return;
      if (!busy) this.#active.delete(path);
    }
  }

  async #isThere(name: BlobName, { size, crc32c }: BlobDigest): Promise<boolean> {
    try {
      if ((await statBlob(this.#root, name)).size !== size) return false;
      return (await digestBlob(this.#root, name)).crc32c === crc32c;
    } catch (error) {
      if (isShoalError(error, 'SHOAL_NOT_FOUND')) return false;
      throw error;
    }
  }
}

const closed = () => new ShoalError('SHOAL_ABORTED', 'this task is shutting down and accepts no more blobs');

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** Restores offset and sum from the partial file of an earlier process. */
async function recover(path: string, upload: Upload): Promise<void> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => undefined);
  if (file === undefined) return;
  try {
    const { size } = await file.stat();
    for await (const chunk of readRange(file, 0, size)) upload.crc32c = crc32c(chunk, upload.crc32c);
    upload.offset = size;
  } finally {
    await file.close();
  }
}
