/**
 * Writing blobs. Bytes are appended to a partial file under an upload id; `publish` checks the size and the
 * sha256 of the whole and then renames it into place, so a blob is there whole or not at all. An upload that
 * was cut goes on at the offset that was reached, also after this process was restarted.
 */
import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, link, lstat, mkdir, open, readdir, rename, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { invalid, isShoalError, messageOf, ShoalError } from '../errors/errors.js';
import { type BlobInfo, codeOf, digestBlob, readRange, statBlob } from './blob-disk.js';
import { type BlobName, locate, RESERVED } from './blob-names.js';

export const UPLOAD_ID = /^[A-Za-z0-9_-]{8,64}$/;

interface Upload {
  readonly hash: Hash;
  offset: number;
  /** Whether a request holds the file. */
  busy: boolean;
  /** Ends that request, when another takes over. */
  stop: AbortController;
  /** Settles when that request has let go of the file. */
  idle: Promise<void>;
}

export interface AppendOptions {
  /** The size that the blob will have: room for it is checked at the start. */
  readonly size?: number | undefined;
  readonly maxBytes?: number;
}

export type Published = { readonly published: true; readonly blob: BlobInfo } | { readonly published: false };

/** Uploads whose hash is kept in memory; for more than these it is computed again from the file. */
const MAX_REMEMBERED = 1024;
const GRACE_MS = 1000;

function noSpace(name: string, cause: unknown): ShoalError {
  return new ShoalError('SHOAL_NO_SPACE', `no room for blob ${name}: ${messageOf(cause)}`, {
    hint: 'free some space on the disk of this task, or keep fewer checkpoints',
    cause,
  });
}

export class Uploads {
  readonly #root: string;
  readonly #active = new Map<string, Upload>();

  constructor(root: string) {
    this.#root = root;
  }

  #partial(name: BlobName, id: string): string {
    if (!UPLOAD_ID.test(id)) throw invalid('an upload id has 8 to 64 letters, digits, - or _');
    const key = createHash('sha256').update(`${id}\n${name}`).digest('hex');
    return join(this.#root, RESERVED, `${key}.part`);
  }

  /** How much of an upload has arrived. */
  async offset(name: BlobName, id: string): Promise<number> {
    const path = this.#partial(name, id);
    const active = this.#active.get(path);
    if (active !== undefined) return active.offset;
    return (await lstat(path).catch(() => undefined))?.size ?? 0;
  }

  /** The same for somebody who is about to go on: first ends whoever still writes, so that it stands still. */
  async settledOffset(name: BlobName, id: string): Promise<number> {
    const path = this.#partial(name, id);
    // A connection that was cut ends by itself as soon as what it brought is written.
    await Promise.race([this.#active.get(path)?.idle, delay(GRACE_MS, undefined, { ref: false })]);
    await this.#free(path);
    return this.offset(name, id);
  }

  /**
   * Appends bytes from `offset` on, which must be what `offset()` tells, or 0 to begin again. When the
   * source fails, what came before stays. Another append to the same upload ends this one.
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
    try {
      if (offset !== upload.offset) {
        throw invalid(`upload of ${name} stands at ${upload.offset}, not at ${offset}`, {
          hint: 'ask for its offset and go on from there',
        });
      }
      await this.#checkRoom(name, options.size === undefined ? 0 : options.size - offset);
      file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
      await file.truncate(offset);
      const { maxBytes = Number.MAX_SAFE_INTEGER } = options;
      const end = Math.min(options.size ?? maxBytes, maxBytes);
      for await (const chunk of source(upload.stop.signal)) {
        upload.stop.signal.throwIfAborted();
        if (upload.offset + chunk.byteLength > end) throw invalid(`blob ${name} is larger than ${end} bytes`);
        await writeAll(file, chunk, upload.offset);
        upload.hash.update(chunk);
        upload.offset += chunk.byteLength;
      }
      return upload.offset;
    } catch (error) {
      if (codeOf(error) !== 'ENOSPC' && codeOf(error) !== 'EDQUOT') throw error;
      this.#active.delete(path);
      await rm(path, { force: true });
      throw noSpace(name, error);
    } finally {
      await file?.close();
      release();
    }
  }

  /** Makes the upload a blob. Done twice, it succeeds twice. */
  async publish(
    name: BlobName,
    id: string,
    { size, sha256, ifAbsent = false }: { size: number; sha256: string; ifAbsent?: boolean },
  ): Promise<Published> {
    const path = this.#partial(name, id);
    if (
      (size > 0 || !ifAbsent) &&
      !this.#active.has(path) &&
      (await this.offset(name, id)) === 0 &&
      (await this.#isThere(name, size, sha256))
    ) {
      return { published: true, blob: await statBlob(this.#root, name) };
    }
    const { upload, release } = await this.#take(path, size);
    try {
      const found = upload.offset === size ? upload.hash.copy().digest('hex') : `only ${upload.offset} bytes`;
      if (found !== sha256) {
        if (upload.offset >= size) await rm(path, { force: true });
        throw new ShoalError(
          'SHOAL_CORRUPT',
          `upload of ${name} is not what was meant: expected ${size} bytes with sha256 ${sha256}, found ${found}`,
          { hint: 'send it again' },
        );
      }
      return await this.#moveIntoPlace(name, path, ifAbsent);
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

  /** Removes partial files that nobody has touched for a while; tells how many. */
  async sweep(olderThanMs: number, now = Date.now()): Promise<number> {
    const folder = join(this.#root, RESERVED);
    let swept = 0;
    for (const file of await readdir(folder).catch(() => [])) {
      const path = join(folder, file);
      const stat = await lstat(path).catch(() => undefined);
      if (stat === undefined || now - stat.mtimeMs < olderThanMs || this.#active.get(path)?.busy === true)
        continue;
      this.#active.delete(path);
      await rm(path, { force: true });
      swept++;
    }
    return swept;
  }

  /** Ends whoever holds the upload. */
  async #free(path: string): Promise<void> {
    for (let held = this.#active.get(path); held?.busy; held = this.#active.get(path)) {
      held.stop.abort(new ShoalError('SHOAL_ABORTED', 'another request goes on with this upload'));
      await held.idle;
    }
  }

  /** Ends whoever holds the upload, then holds it. */
  async #take(path: string, offset: number): Promise<{ upload: Upload; release: () => void }> {
    await this.#free(path);
    const known = this.#active.get(path);
    const { promise, resolve } = withResolvers();
    const stop = new AbortController();
    const fresh = known === undefined || offset === 0;
    const upload: Upload = fresh
      ? { hash: createHash('sha256'), offset: 0, busy: true, stop, idle: promise }
      : Object.assign(known, { busy: true, stop, idle: promise });
    this.#active.set(path, upload);
    const release = () => {
      upload.busy = false;
      resolve();
      this.#forgetSome();
    };
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      if (fresh && offset > 0) await rehash(path, upload);
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

  async #isThere(name: BlobName, size: number, sha256: string): Promise<boolean> {
    try {
      if ((await statBlob(this.#root, name)).size !== size) return false;
      return (await digestBlob(this.#root, name)).sha256 === sha256;
    } catch (error) {
      if (isShoalError(error, 'SHOAL_NOT_FOUND')) return false;
      throw error;
    }
  }

  async #moveIntoPlace(name: BlobName, partial: string, ifAbsent: boolean): Promise<Published> {
    // An empty blob never had bytes to append.
    const file = await open(partial, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    try {
      await file.sync();
    } finally {
      await file.close();
    }
    const path = await locate(this.#root, name);
    try {
      await mkdir(dirname(path), { recursive: true });
      if (ifAbsent) {
        await link(partial, path);
        await rm(partial);
      } else await rename(partial, path);
    } catch (error) {
      const code = codeOf(error);
      if (ifAbsent && code === 'EEXIST') {
        await rm(partial, { force: true });
        return { published: false };
      }
      if (code === 'ENOTDIR' || code === 'EEXIST' || code === 'EISDIR' || code === 'ENOTEMPTY') {
        throw invalid(`blob ${name} would be both a file and a directory`, { cause: error });
      }
      if (code === 'ENOSPC' || code === 'EDQUOT') throw noSpace(name, error);
      throw error;
    }
    await syncDirectory(dirname(path));
    return { published: true, blob: await statBlob(this.#root, name) };
  }

  async #checkRoom(name: BlobName, bytes: number): Promise<void> {
    if (bytes <= 0) return;
    const { bavail, bsize } = await statfs(this.#root);
    if (bavail * bsize < bytes) throw noSpace(name, `${bytes} bytes are to come, ${bavail * bsize} are free`);
  }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

async function writeAll(file: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < chunk.byteLength; ) {
    const { bytesWritten } = await file.write(chunk, done, chunk.byteLength - done, position + done);
    done += bytesWritten;
  }
}

/** Recovers offset and hash from the partial file of an earlier process. */
async function rehash(path: string, upload: Upload): Promise<void> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => undefined);
  if (file === undefined) return;
  try {
    const { size } = await file.stat();
    for await (const chunk of readRange(file, 0, size)) upload.hash.update(chunk);
    upload.offset = size;
  } finally {
    await file.close();
  }
}

/** Makes a rename last through a power cut. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
