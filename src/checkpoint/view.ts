/**
 * The directory of a training job as TensorFlow's users know it: the file `checkpoint`, which names the newest, and beside
 * it index and `.meta` of those that are kept, verified. Data files are there too, as further names of the same bytes, where the
 * store has them on this disk; elsewhere they are fetched by `shoal checkpoint pull`.
 */
import { randomBytes } from 'node:crypto';
import { link, lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32c } from '../bytes/crc32c.js';
import {
  CHECKPOINT_STATE_FILE,
  formatCheckpointState,
} from '../formats/checkpoint-state/checkpoint-state.js';
import type { Store } from '../store/store.js';
import type { Manifest } from './manifest.js';
import { fileBlob } from './names.js';
import { VerifiedReader } from './verified-reader.js';

export interface ViewOptions {
  readonly store: Store;
  readonly namespace: string;
  readonly directory: string;
  /** Directories of this disk in which the store may keep blobs. */
  readonly roots: readonly string[];
  /** The files that are known to be shown as they should, and of which attempt. */
  readonly shown?: Map<string, string> | undefined;
}

/** Makes the directory show these checkpoints, newest first, and no others. */
export async function updateView(options: ViewOptions, manifests: readonly Manifest[]): Promise<void> {
  const { directory, shown } = options;
  await mkdir(directory, { recursive: true });
  const wanted = new Set<string>();
  const newestOf = new Map<string, Manifest>();
  for (const manifest of manifests)
    if (!newestOf.has(manifest.prefix)) newestOf.set(manifest.prefix, manifest);
  for (const manifest of newestOf.values()) {
    for (const { file } of manifest.files) wanted.add(file);
    await show(options, manifest);
  }
  const oldestFirst = [...newestOf.values()].reverse();
  await replace(
    directory,
    CHECKPOINT_STATE_FILE,
    Buffer.from(
      formatCheckpointState({
        modelCheckpointPath: manifests[0]?.prefix ?? '',
        allModelCheckpointPaths: oldestFirst.map(({ prefix }) => prefix),
        allModelCheckpointTimestamps: oldestFirst.map(({ savedAtMs }) => savedAtMs / 1000),
        lastPreservedTimestamp: 0,
      }),
    ),
  );
  const bases = new Set([...newestOf.keys()].map((prefix) => prefix.replace(/-\d+$/, '')));
  for (const file of await readdir(directory)) {
    const match = /^(.+)-\d+\.(?:index|meta|data-\d+-of-\d+)$/.exec(file);
    if (!match || !bases.has(match[1]!) || wanted.has(file)) continue;
    shown?.delete(file);
    await rm(join(directory, file), { force: true });
  }
}

/** Index and `.meta` as they were saved, and the data files that are on this disk. */
async function show(options: ViewOptions, manifest: Manifest): Promise<void> {
  const { directory, store, namespace, shown = new Map() } = options;
  const reader = new VerifiedReader(store, manifest, { namespace });
  // The state of the input is of no use to TensorFlow, and may be large.
  const files = manifest.files.filter(({ file }) => file !== manifest.inputFile);
  await Promise.all(
    files.map(async ({ file, size, crc32c: sum }) => {
      const there =
        shown.get(file) === manifest.attempt && (await lstat(join(directory, file)).catch(() => undefined));
      if (there && there.size === size) return;
      if (/\.data-\d+-of-\d+$/.test(file)) {
        if (!(await linkFrom(options, fileBlob(namespace, manifest, file), file))) return;
      } else {
        const found = await readFile(join(directory, file)).catch(() => undefined);
        if (found?.byteLength !== size || crc32c(found) !== sum)
          await replace(directory, file, await reader.read(file, 0, size));
      }
      shown.set(file, manifest.attempt);
    }),
  ).finally(() => reader.close());
}

/** One more name for a blob that is on this disk; false where it is not. */
async function linkFrom({ roots, directory }: ViewOptions, blob: string, file: string): Promise<boolean> {
  for (const root of roots) {
    const temporary = join(directory, `.${file}.${randomBytes(4).toString('hex')}`);
    try {
      await link(join(root, blob), temporary);
      await rename(temporary, join(directory, file));
      // Where both are one file already, a rename does nothing and leaves the second name.
      await rm(temporary, { force: true });
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!['ENOENT', 'EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK'].includes(code ?? '')) throw error;
    }
  }
  return false;
}

async function replace(directory: string, file: string, bytes: Uint8Array): Promise<void> {
  const temporary = join(directory, `.${file}.${randomBytes(4).toString('hex')}`);
  const handle = await open(temporary, 'wx');
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, join(directory, file));
}
