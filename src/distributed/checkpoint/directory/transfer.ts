/**
 * Copies checkpoints between a store and a directory. `pull` copies one into a directory that unmodified TensorFlow
 * reads; `push` copies one from a directory, also one written by TensorFlow, into the store. Both verify the bytes, and
 * publish the complete checkpoint or nothing.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { combineCrc32c } from '../../../base/bytes/crc32c-combine.js';
import { RELEASE } from '../../../base/bytes/versions.js';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import { formatCheckpointState } from '../../../tensorflow/formats/checkpoint-state/checkpoint-state.js';
import { DirectoryReader } from '../../../tensorflow/formats/range-reader.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { Store } from '../../store/store.js';
import {
  decodeChunks,
  encodeChunks,
  encodeManifest,
  type Manifest,
  type ManifestFile,
} from '../format/manifest.js';
import { fileBlob, manifestBlob, newAttempt } from '../format/names.js';
import { CHUNK_BYTES } from '../format/shard-image.js';
import { nextSequence } from '../reading/catalog.js';
import { decodeInput, inputFile } from '../reading/input-file.js';
import { fileSource, VerifiedReader } from '../reading/verified-reader.js';

export interface TransferOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
  readonly log?: (line: string) => void;
}

/**
 * Copies a checkpoint into a directory; resolves with its path there. If the store becomes unreachable, the partial
 * files are kept for the next pull.
 */
export async function pullCheckpoint(
  store: Store,
  namespace: string,
  manifest: Manifest,
  directory: string,
  options: TransferOptions = {},
): Promise<string> {
  const { signal, onProgress, log } = options;
  const reader = new VerifiedReader(store, manifest, { namespace, signal, onDamage: log });
  const total = manifest.files.reduce((sum, { size }) => sum + size, 0);
  const tag = `.pull-${manifest.attempt}-`;
  await makeDirectory(directory);
  await sweepPulls(directory, tag);
  const parts: { temporary: string; file: string }[] = [];
  let done = 0;
  try {
    // The index comes last: without it TensorFlow sees no checkpoint.
    const inOrder = [...manifest.files].sort(
      (a, b) => Number(a.file.endsWith('.index')) - Number(b.file.endsWith('.index')),
    );
    for (const entry of inOrder) {
      const { file } = entry;
      const temporary = join(directory, tag + file);
      parts.push({ temporary, file });
      const handle = await open(temporary, constants.O_RDWR | constants.O_CREAT);
      try {
        const there = await goodBytes(handle, entry);
        await handle.truncate(there);
        done += there;
        let at = there;
        for await (const bytes of fileSource(reader, entry)(there)) {
          await handle.write(bytes, 0, bytes.byteLength, at);
          at += bytes.byteLength;
          done += bytes.byteLength;
          onProgress?.(done, total);
          signal?.throwIfAborted();
        }
        await handle.datasync();
      } finally {
        await handle.close();
      }
    }
    for (const { temporary, file } of parts) await rename(temporary, join(directory, file));
    // An earlier pull of the same name may have left its input state.
    if (manifest.inputFile === undefined)
      await rm(join(directory, inputFile(manifest.prefix)), { force: true });
  } catch (error) {
    const isTransient = isShoalError(error, 'SHOAL_UNREACHABLE') || isShoalError(error, 'SHOAL_TIMEOUT');
    if (isTransient && done > 0 && !signal?.aborted) {
      log?.(`partial files are kept in ${directory}: the next pull of ${manifest.prefix} resumes from them`);
    } else for (const { temporary } of parts) await rm(temporary, { force: true });
    throw error;
  }
  await writeState(directory, tag, manifest);
  return join(directory, manifest.prefix);
}

/** Writes the file that names the newest checkpoint. */
async function writeState(directory: string, tag: string, manifest: Manifest): Promise<void> {
  const state = formatCheckpointState({
    modelCheckpointPath: manifest.prefix,
    allModelCheckpointPaths: [manifest.prefix],
    allModelCheckpointTimestamps: [manifest.savedAtMs / 1000],
    lastPreservedTimestamp: 0,
  });
  const temporary = join(directory, `${tag}checkpoint`);
  const handle = await open(temporary, 'w');
  await handle.writeFile(state);
  await handle.close();
  await rename(temporary, join(directory, 'checkpoint'));
}

/** An interrupted pull is resumed by the next one of the same checkpoint; its files are removed after a day. */
const PULL_MS = 24 * 3_600_000;

async function sweepPulls(directory: string, tag: string): Promise<void> {
  for (const file of await readdir(directory)) {
    if (!/^\.pull-[a-z0-9-]+-/.test(file) || file.startsWith(tag)) continue;
    const path = join(directory, file);
    const found = await stat(path).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > PULL_MS) await rm(path, { force: true });
  }
}

/** How many bytes of a file an earlier pull has copied: complete chunks with correct checksums. */
async function goodBytes(handle: FileHandle, entry: ManifestFile): Promise<number> {
  const { size: there } = await handle.stat();
  const memory = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, entry.size));
  let at = 0;
  for (const sum of decodeChunks(entry)) {
    const length = Math.min(CHUNK_BYTES, entry.size - at);
    if (at + length > there) break;
    const { bytesRead } = await handle.read(memory, 0, length, at);
    if (bytesRead !== length || crc32c(memory.subarray(0, length)) !== sum) break;
    at += length;
  }
  return at;
}

export interface PushOptions extends TransferOptions {
  readonly chief?: Manifest['chief'];
  readonly nowMs?: number;
  readonly job?: string;
}

/** Copies the checkpoint at a path (`dir/model.ckpt-500`) into the store. */
export async function pushCheckpoint(
  store: Store,
  namespace: string,
  path: string,
  options: PushOptions = {},
): Promise<Manifest> {
  const { signal, onProgress } = options;
  const [directory, prefix] = [dirname(path), basename(path)];
  await using files = new DirectoryReader(directory);
  const bundle = await BundleReader.open(files, prefix);
  const { index } = bundle;
  // The manifest gets checksums of these bytes, so they must be the saved ones.
  for (const name of index.tensors.keys()) await bundle.verify(name, { signal });
  const names = Array.from({ length: index.shards }, (_, shard) => dataFile(prefix, shard, index.shards));
  names.push(indexFile(prefix));
  const meta = `${prefix}.meta`;
  if (await stat(join(directory, meta)).catch(() => undefined)) names.push(meta);
  const input = (await hasInput(files, path, options)) ? inputFile(prefix) : undefined;
  if (input !== undefined) names.push(input);
  const sizes = await Promise.all(names.map((name) => files.size(name)));
  const total = sizes.reduce((a, b) => a + b, 0);
  const attempt = newAttempt();
  const blobOf = (file: string) => fileBlob(namespace, { prefix, attempt }, file);
  const sequence = await nextSequence(store, namespace, { signal });
  const entries: ManifestFile[] = [];
  let done = 0;
  try {
    for (const [i, file] of names.entries()) {
      const size = sizes[i]!;
      const onBytes = (bytes: number) => onProgress?.(done + bytes, total);
      entries.push(await putFile(store, blobOf(file), files, { directory, file, size, signal, onBytes }));
      done += size;
    }
  } catch (error) {
    const blobs = names.slice(0, entries.length + 1).map(blobOf);
    // Blobs that cannot be removed have no manifest, and a later save removes them.
    await Promise.allSettled(blobs.map((blob) => store.remove(blob)));
    throw error;
  }
  const manifest: Manifest = {
    format: 'shoal-checkpoint',
    version: input === undefined ? 1 : 2,
    release: RELEASE,
    sequence,
    step: Number(/-(\d+)$/.exec(prefix)?.[1] ?? 0),
    attempt,
    prefix,
    savedAtMs: options.nowMs ?? Date.now(),
    job: options.job,
    consistency: 'imported',
    chief: options.chief ?? { task: '', incarnation: 0 },
    shards: index.shards,
    tensors: index.tensors.size,
    files: entries,
    ...(input === undefined ? { input: null } : { inputFile: input }),
  };
  const everywhere = { signal, copies: 'everywhere' } as const;
  await store.put(manifestBlob(namespace, manifest), encodeManifest(manifest), everywhere);
  return manifest;
}

interface PutFileOptions {
  /** For messages. */
  readonly directory: string;
  readonly file: string;
  readonly size: number;
  readonly signal: AbortSignal | undefined;
  readonly onBytes: (bytes: number) => void;
}

/** Copies a file into the store; rejects if it changes meanwhile. */
async function putFile(
  store: Store,
  blob: string,
  files: DirectoryReader,
  { directory, file, size, signal, onBytes }: PutFileOptions,
): Promise<ManifestFile> {
  const chunks = new Uint32Array(Math.ceil(size / CHUNK_BYTES));
  const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
    for (let at = offset; at < size; ) {
      const end = Math.min(size, (Math.floor(at / CHUNK_BYTES) + 1) * CHUNK_BYTES);
      const bytes = await files.read(file, at, end - at);
      if (at % CHUNK_BYTES === 0) chunks[at / CHUNK_BYTES] = crc32c(bytes);
      yield bytes;
      at = end;
      onBytes(at);
    }
  };
  const isSmall = !/\.data-\d+-of-\d+$/.test(file);
  const put = await store.put(blob, source, { size, signal, copies: isSmall ? 'everywhere' : 'replicated' });
  const sum = chunks.reduce(
    (crc, chunk, at) => combineCrc32c(crc, chunk, Math.min(CHUNK_BYTES, size - at * CHUNK_BYTES)),
    0,
  );
  if (sum === put.crc32c)
    return { file, size, crc32c: sum, chunks: encodeChunks(chunks), places: [...put.places] };
  throw new ShoalError('SHOAL_CORRUPT', `${file} changed while it was read from ${directory}`);
}

/** Whether the directory has the input state of this checkpoint, not of another one with the same name. */
async function hasInput(files: DirectoryReader, path: string, { log }: TransferOptions): Promise<boolean> {
  const prefix = basename(path);
  const file = inputFile(prefix);
  if (!(await stat(join(dirname(path), file)).catch(() => undefined))) return false;
  const bytesOf = async (name: string) => files.read(name, 0, await files.size(name));
  const { index } = decodeInput(await bytesOf(file), join(dirname(path), file));
  if (index === crc32c(await bytesOf(indexFile(prefix)))) return true;
  log?.(`${file} belongs to another checkpoint of the same name: it is ignored`);
  return false;
}
