/** Blobs as files below one directory: stat, read, list, remove. See disk-writer.ts and publish.ts for writing. */
import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { throwIfAborted } from '../../../base/async/deadline.js';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { type BlobName, blobName, folderOf, locate, RESERVED } from '../blob-names.js';
import type { BlobDigest, BlobListOptions } from '../store.js';
import { fillFrom, sumRange } from './read-back.js';

export interface DiskBlob {
  readonly name: string;
  readonly size: number;
  readonly modifiedMs: number;
  /** Changes when the blob does. */
  readonly etag: string;
}

export interface OpenBlob extends DiskBlob {
  readonly file: FileHandle;
}

const CHUNK_BYTES = 1 << 20;
const READS_AHEAD = 3;

export function notFound(name: string, cause?: unknown): ShoalError {
  return new ShoalError('SHOAL_NOT_FOUND', `there is no blob ${name}`, { cause });
}

const MISSING: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ENXIO']);

export function codeOf(error: unknown): string {
  return String((error as NodeJS.ErrnoException | undefined)?.code ?? '');
}

/** Opens a blob for reading. The caller closes the file. */
export async function openBlob(
  root: string,
  name: BlobName,
  { direct = false }: { readonly direct?: boolean } = {},
): Promise<OpenBlob> {
  const path = await locate(root, name);
  // Nonblocking: opening a named pipe would otherwise wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  let file: FileHandle | undefined;
  try {
    // Bypasses the page cache if the file system supports that.
    if (direct && constants.O_DIRECT !== undefined)
      file = await open(path, flags | constants.O_DIRECT).catch(() => undefined);
    file ??= await open(path, flags);
  } catch (error) {
    throw MISSING.has(codeOf(error)) ? notFound(name, error) : error;
  }
  const stat = await file.stat({ bigint: true });
  if (!stat.isFile()) {
    await file.close();
    throw notFound(name);
  }
  return { file, ...infoOf(name, stat) };
}

export async function statBlob(root: string, name: BlobName): Promise<DiskBlob> {
  return statPath(await locate(root, name), name);
}

/** The same for a path that was checked. */
async function statPath(path: string, name: BlobName): Promise<DiskBlob> {
  const stat = await lstat(path, { bigint: true }).catch((error: unknown) => {
    throw MISSING.has(codeOf(error)) ? notFound(name, error) : error;
  });
  if (!stat.isFile()) throw notFound(name);
  return infoOf(name, stat);
}

function infoOf(name: BlobName, { size, mtimeMs, mtimeNs, ino }: BigIntStats): DiskBlob {
  const etag = `"${size.toString(36)}-${mtimeNs.toString(36)}-${ino.toString(36)}"`;
  return { name, size: Number(size), modifiedMs: Number(mtimeMs), etag };
}

/** The bytes `[start, end)` of an open file, in chunks, with some read-ahead. */
export async function* readRange(
  file: FileHandle,
  start: number,
  end: number,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const ahead: Promise<Uint8Array>[] = [];
  let next = start;
  try {
    while (next < end || ahead.length > 0) {
      throwIfAborted('reading a blob', signal);
      for (; ahead.length < READS_AHEAD && next < end; next += CHUNK_BYTES) {
        const chunk = readFully(file, next, Math.min(CHUNK_BYTES, end - next));
        // Awaited later, or abandoned when the reader stops.
        chunk.catch(() => {});
        ahead.push(chunk);
      }
      yield await (ahead.shift() as Promise<Uint8Array>);
    }
  } finally {
    // The caller closes the file next.
    await Promise.allSettled(ahead);
  }
}

async function readFully(file: FileHandle, position: number, size: number): Promise<Uint8Array> {
  const buffer = Buffer.allocUnsafeSlow(size);
  await fillFrom(file, position, buffer);
  return buffer;
}

/** Size and crc32c, computed from the disk. */
export async function digestBlob(root: string, name: BlobName, signal?: AbortSignal): Promise<BlobDigest> {
  const { file, size } = await openBlob(root, name);
  try {
    return { size, crc32c: (await sumRange(file, 0, () => size, { signal })).crc32c };
  } finally {
    await file.close();
  }
}

/** Removes a blob and the directories that this leaves empty; returns whether it existed. */
export async function removeBlob(root: string, name: BlobName): Promise<boolean> {
  const path = await locate(root, name);
  try {
    await rm(path);
  } catch (error) {
    if (MISSING.has(codeOf(error)) || codeOf(error) === 'ERR_FS_EISDIR') return false;
    throw error;
  }
  for (let parent = dirname(path); parent.length > root.length; parent = dirname(parent)) {
    // Not empty, or removed by another process.
    if (
      await rmdir(parent).then(
        () => false,
        () => true,
      )
    )
      break;
  }
  return true;
}

export interface DiskListOptions {
  readonly prefix?: string;
  /** Continue after this name. */
  readonly after?: string;
  readonly limit?: number;
}

/** Blobs whose names begin with the prefix, ordered by the parts of their names. */
export async function* eachBlob(
  root: string,
  prefix = '',
  { after, skip = () => false }: Pick<DiskListOptions, 'after'> & Pick<BlobListOptions, 'skip'> = {},
): AsyncGenerator<DiskBlob> {
  const start = folderOf(prefix);
  if (start !== undefined) await locate(root, start);
  for await (const name of walk(root, start ?? '', skip)) {
    if (!name.startsWith(prefix) || (after !== undefined && compareNames(name, after) <= 0)) continue;
    // The file may have been removed meanwhile.
    const info = await statPath(join(root, name), name).catch((error: unknown) => {
      if (!isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
      return undefined;
    });
    if (info !== undefined) yield info;
  }
}

/** One page of the same. */
export async function listBlobs(root: string, { prefix = '', after, limit = 1000 }: DiskListOptions) {
  const blobs: DiskBlob[] = [];
  for await (const blob of eachBlob(root, prefix, { after })) {
    if (blobs.length === limit) return { blobs, next: blobs[blobs.length - 1]!.name };
    blobs.push(blob);
  }
  return { blobs, next: null };
}

function compareNames(a: string, b: string): number {
  const [left, right] = [a.split('/'), b.split('/')];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i]! < right[i]! ? -1 : 1;
  }
  return left.length - right.length;
}

async function* walk(
  root: string,
  folder: string,
  skip: (name: string) => boolean,
): AsyncGenerator<BlobName> {
  const entries = await readdir(join(root, folder), { withFileTypes: true }).catch((error: unknown) => {
    if (MISSING.has(codeOf(error))) return [];
    throw error;
  });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (skip(name)) continue;
    if (entry.isDirectory() && name !== RESERVED) yield* walk(root, name, skip);
    else if (entry.isFile() && isName(name)) yield blobName(name);
  }
}

/** Whether the path of a file in the root is a valid blob name. */
function isName(name: string): boolean {
  try {
    blobName(name);
    return true;
  } catch {
    return false;
  }
}
