/**
 * The files of a version with their sizes and checksums: a publisher sends this list first, and a receiver verifies what
 * arrives against it. Its digest identifies the content of a version.
 */
import { createHash } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { throwIfAborted } from '../../../base/async/deadline.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { invalid, ShoalError } from '../../../base/errors/errors.js';

export const MAX_FILES = 10_000;
const MAX_PATH = 1024;
const READ_BYTES = 1 << 20;

export interface FileEntry {
  /** Relative, with `/`. */
  readonly path: string;
  readonly bytes: number;
  readonly crc32c: number;
}

export interface PublishedManifest {
  readonly files: readonly FileEntry[];
  readonly digest: string;
}

const size = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

const FileSchema = v.object({
  path: v.pipe(v.string(), v.maxLength(MAX_PATH)),
  bytes: size,
  crc32c: v.pipe(size, v.maxValue(2 ** 32 - 1)),
});

/** Files as they come over the network; `checkFiles` looks at what they say. */
export const FilesSchema = v.pipe(v.array(FileSchema), v.minLength(1), v.maxLength(MAX_FILES));

export const bytesOf = (files: readonly FileEntry[]): number =>
  files.reduce((sum, { bytes }) => sum + bytes, 0);

/** Independent of the order of the files. */
export function digestOf(files: readonly FileEntry[]): string {
  const lines = files.map(({ path, bytes, crc32c: crc }) => `${path}\0${bytes}\0${crc}\n`).sort();
  return createHash('sha256').update(lines.join('')).digest('hex');
}

/** Letters, digits and signs that every file system takes; nothing that means a place. */
const isName = (part: string): boolean =>
  part !== '' && part !== '.' && part !== '..' && !/[\p{Cc}\\:]/u.test(part);

/** Throws if a path leaves the version's directory, or if two cannot exist beside each other. */
export function checkPaths(files: readonly FileEntry[]): void {
  const folders = new Set<string>();
  const paths = new Set<string>();
  for (const { path } of files) {
    const parts = path.split('/');
    if (!parts.every(isName))
      throw invalid(`the version has a file with the path ${JSON.stringify(path)}, which is not allowed`, {
        hint: 'Paths are relative, with / between names, and stay in the directory of the version.',
      });
    if (paths.has(path)) throw invalid(`the version has the file ${path} twice`);
    paths.add(path);
    for (let i = 1; i < parts.length; i++) folders.add(parts.slice(0, i).join('/'));
  }
  for (const path of paths)
    if (folders.has(path)) throw invalid(`${path} would be both a file and a directory`);
}

/** Reads a version's directory. */
export async function manifestOf(directory: string, signal?: AbortSignal): Promise<PublishedManifest> {
  const files: FileEntry[] = [];
  for await (const { path, found } of filesIn(directory, signal)) {
    const bytes = Number(found.size);
    files.push({ path, bytes, crc32c: await checksumOf(directory, path, bytes, signal) });
  }
  checkPaths(files);
  return { files, digest: digestOf(files) };
}

/** Differs when a file of a directory was added, removed, replaced or written. It stays the same when it is renamed. */
export async function sealOf(directory: string): Promise<string> {
  const lines: string[] = [];
  for await (const { path, found } of filesIn(directory))
    lines.push(`${path}\0${found.ino} ${found.size} ${found.mtimeNs}\n`);
  return createHash('sha256').update(lines.join('')).digest('hex');
}

/** The files of a directory and of those in it, in the order of their names. Links are followed. */
async function* filesIn(
  directory: string,
  signal?: AbortSignal,
): AsyncGenerator<{ readonly path: string; readonly found: BigIntStats }> {
  let count = 0;
  async function* walk(folder: string, above: readonly string[]): ReturnType<typeof filesIn> {
    for (const name of (await readdir(join(directory, folder))).sort()) {
      throwIfAborted(`reading ${directory}`, signal);
      const path = folder === '' ? name : `${folder}/${name}`;
      const place = join(directory, path);
      const found = await stat(place, { bigint: true });
      count += 1;
      if (count > MAX_FILES) throw invalid(`${directory} has more than ${MAX_FILES} files and directories`);
      if (found.isFile()) yield { path, found };
      else if (!found.isDirectory()) throw invalid(`${place} is neither a file nor a directory`);
      else if (above.includes(identityOf(found))) throw invalid(`${place} contains itself, by a link`);
      else yield* walk(path, [...above, identityOf(found)]);
    }
  }
  yield* walk('', [identityOf(await stat(directory, { bigint: true }))]);
}

const identityOf = ({ dev, ino }: BigIntStats): string => `${dev} ${ino}`;

async function checksumOf(
  directory: string,
  path: string,
  bytes: number,
  signal: AbortSignal | undefined,
): Promise<number> {
  const file = await open(join(directory, path), 'r');
  try {
    const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, Math.max(1, bytes)));
    let crc = 0;
    let position = 0;
    for (;;) {
      throwIfAborted(`reading ${path}`, signal);
      const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, position);
      if (bytesRead === 0) break;
      crc = crc32c(buffer.subarray(0, bytesRead), crc);
      position += bytesRead;
    }
    if (position === bytes) return crc;
    throw new ShoalError('SHOAL_CORRUPT', `${join(directory, path)} changed while it was read`, {
      hint: 'Publish a version when it is complete: an export appears by one rename.',
    });
  } finally {
    await file.close();
  }
}
