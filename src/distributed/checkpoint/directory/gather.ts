/**
 * Copies the data files of checkpoints that are on the disks of other tasks, so that the job's directory contains them
 * completely, and TensorFlow reads them there.
 *
 * If the directory can have hard links to the blobs of this task, a file becomes one of these blobs: one more copy of the
 * checkpoint, which restores and repairs use, and which is removed with it. Otherwise it is copied to the directory only.
 */
import { open, statfs } from 'node:fs/promises';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import { bytes } from '../../../base/text/format.js';
import type { DirectoryStore } from '../../store/disk/directory-store.js';
import type { Store } from '../../store/store.js';
import type { Manifest, ManifestFile } from '../format/manifest.js';
import { fileBlob, manifestBlob } from '../format/names.js';
import { fileSource, VerifiedReader } from '../reading/verified-reader.js';
import type { CheckpointView } from './view.js';

/** Which checkpoints become complete in the directory: the last one when training ends, each one, or none. */
export type GatherMode = 'last' | 'all' | 'none';

export const GATHER_MODES: readonly GatherMode[] = ['last', 'all', 'none'];

export function checkGatherMode(mode: unknown, what: string): void {
  if (mode === undefined || GATHER_MODES.includes(mode as GatherMode)) return;
  throw invalid(`${what} must be 'last', 'all' or 'none'; it is ${JSON.stringify(mode)}`);
}

export interface GatherSource {
  readonly store: Store;
  readonly namespace: string;
  readonly view: CheckpointView;
  /** The blobs of this task, if the store has other places too. */
  readonly own?: DirectoryStore | undefined;
}

export interface GatherDataOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (done: number, total: number) => void;
  readonly onDamage?: (line: string) => void;
  /** The free space of the disk of a directory; default: what the system reports. */
  readonly freeBytes?: (directory: string) => Promise<number>;
}

/** What was copied. */
export interface Gathered {
  readonly files: number;
  readonly bytes: number;
}

const freeOf = async (directory: string): Promise<number> => {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
};

/** Copies what the directory lacks of a checkpoint that it shows, verified chunk by chunk. */
export async function gatherCheckpoint(
  { store, namespace, view, own }: GatherSource,
  manifest: Manifest,
  { signal, onProgress, onDamage, freeBytes = freeOf }: GatherDataOptions = {},
): Promise<Gathered> {
  const lacking = await view.lacking(manifest);
  const total = lacking.reduce((sum, { size }) => sum + size, 0);
  if (lacking.length === 0) return { files: 0, bytes: 0 };
  signal?.throwIfAborted();
  const blobs = own && (await view.canLinkTo(own.root)) ? own : undefined;
  const target = blobs?.root ?? view.directory;
  const free = await freeBytes(target);
  if (free < total)
    throw new ShoalError(
      'SHOAL_NO_SPACE',
      `${bytes(total)} are needed, and ${target} has ${bytes(free)} free`,
    );
  const reader = new VerifiedReader(store, manifest, { namespace, signal, onDamage });
  let done = 0;
  const sourceOf = (entry: ManifestFile) => (offset: number) =>
    counted(fileSource(reader, entry)(offset), (size) => {
      signal?.throwIfAborted();
      done += size;
      onProgress?.(done, total);
    });
  try {
    for (const entry of lacking) {
      if (blobs)
        await addBlob(blobs, fileBlob(namespace, manifest, entry.file), entry, sourceOf(entry), signal);
      else await view.add(manifest, entry.file, (path) => writeFile(path, sourceOf(entry)(0)));
    }
    // It may have been removed meanwhile, with the copies that existed then.
    if (blobs && !(await store.stat(manifestBlob(namespace, manifest), { signal })))
      for (const { file } of lacking) await blobs.remove(fileBlob(namespace, manifest, file));
  } finally {
    reader.close();
  }
  return { files: lacking.length, bytes: total };
}

async function addBlob(
  blobs: DirectoryStore,
  name: string,
  { file, size, crc32c }: ManifestFile,
  source: (offset: number) => AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const put = await blobs.put(name, source, { size, signal });
  if (put.crc32c === crc32c) return;
  await blobs.remove(name);
  throw new ShoalError('SHOAL_CORRUPT', `${file} changed while it was copied to ${blobs.url}`);
}

async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  onBytes: (size: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    yield chunk;
    onBytes(chunk.byteLength);
  }
}

async function writeFile(path: string, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const handle = await open(path, 'wx');
  try {
    for await (const chunk of chunks) await handle.writeFile(chunk);
    await handle.datasync();
  } finally {
    await handle.close();
  }
}
