/**
 * Verifies a checkpoint: every copy of every file is read and compared with the sums in the manifest, chunk by chunk;
 * then the index is opened and every tensor compared with the sum that TensorFlow keeps of it.
 */
import { crc32c } from '../bytes/crc32c.js';
import { firstLineOf, isShoalError } from '../errors/errors.js';
import { isSystemError } from '../errors/system-error.js';
import { BundleReader } from '../formats/tensor-bundle/bundle-reader.js';
import { boxOf, elementCount } from '../formats/tensor-bundle/slice.js';
import type { Store } from '../store/store.js';
import { decodeChunks, encodeManifest, type Manifest, type ManifestFile } from './manifest.js';
import { fileBlob, manifestBlob } from './names.js';
import { readManifestAt } from './read-manifest.js';
import { CHUNK_BYTES } from './shard-image.js';
import { VerifiedReader } from './verified-reader.js';

export interface VerifyOptions {
  /** Let whoever holds a copy sum it: nothing but sums travels, and tensors are not looked at. */
  readonly quick?: boolean | undefined;
  /** How many copies are read at a time. */
  readonly concurrency?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

export interface CopyReport {
  readonly place: string;
  /** What is wrong with it; undefined for a good copy. */
  readonly problem: string | undefined;
}

export interface FileReport {
  readonly file: string;
  readonly size: number;
  readonly copies: readonly CopyReport[];
}

export interface VerifyReport {
  readonly manifest: Manifest;
  readonly manifestCopies: readonly CopyReport[];
  readonly files: readonly FileReport[];
  /** What is wrong beside copies: an index that cannot be read, a tensor without its sum. */
  readonly problems: readonly string[];
  readonly bytesRead: number;
}

interface Copy {
  readonly entry: ManifestFile;
  readonly blob: string;
  readonly place: string;
}

const CONCURRENCY = 4;

export const isGood = ({ problem }: CopyReport): boolean => problem === undefined;

/** The damaged copies, each with its file; the manifest's too. */
export function damagedCopies({ files, manifestCopies }: VerifyReport): (CopyReport & { file: string })[] {
  const all = [...files, { file: 'manifest', copies: manifestCopies }];
  return all.flatMap(({ file, copies }) =>
    copies.filter((copy) => !isGood(copy)).map((copy) => ({ file, ...copy })),
  );
}

/** Files of which there is no copy that is good from end to end. */
export function lostFiles({ files }: VerifyReport): string[] {
  return files.filter(({ copies }) => !copies.some(isGood)).map(({ file }) => file);
}

export function isSound(report: VerifyReport): boolean {
  const nothingLost = lostFiles(report).length === 0 && report.problems.length === 0;
  return nothingLost && damagedCopies(report).length === 0;
}

export async function verifyCheckpoint(
  store: Store,
  namespace: string,
  manifest: Manifest,
  options: VerifyOptions = {},
): Promise<VerifyReport> {
  const { signal, quick = false, concurrency = CONCURRENCY, onProgress } = options;
  const found = await Promise.all(
    manifest.files.map(async (entry) => {
      const blob = fileBlob(namespace, manifest, entry.file);
      const places = await store.locate(blob, { signal });
      return { entry, copies: places.map((place): Copy => ({ entry, blob, place })) };
    }),
  );
  const all = found.flatMap(({ copies }) => copies);
  const sizeOf = (files: readonly ManifestFile[]) => files.reduce((sum, { size }) => sum + size, 0);
  const total = sizeOf(all.map(({ entry }) => entry)) + (quick ? 0 : sizeOf(manifest.files));
  let done = 0;
  const progress = (bytes: number) => {
    done += bytes;
    onProgress?.(Math.min(done, total), total);
  };

  const reports = new Map<Copy, CopyReport>();
  await eachOf(all, concurrency, async (copy) => {
    const problem = await problemOf(async () => {
      const bad = quick
        ? await digestCopy(store, copy, signal)
        : await readCopy(store, copy, progress, signal);
      if (quick) progress(copy.entry.size);
      return bad;
    }, signal);
    reports.set(copy, { place: copy.place, problem });
  });
  const files = found.map(({ entry, copies }) => ({
    file: entry.file,
    size: entry.size,
    copies: copies.map((copy) => reports.get(copy)!),
  }));
  const bytesRead = done;
  const problems = quick
    ? []
    : await tensorProblems(store, namespace, manifest, signal, (bytes) => progress(bytes));
  return {
    manifest,
    manifestCopies: await manifestCopies(store, namespace, manifest, signal),
    files,
    problems,
    bytesRead,
  };
}

/** What is wrong with a copy as its holder sums it. */
async function digestCopy(
  store: Store,
  { blob, place, entry }: Copy,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { size, crc32c: sum } = await store.digest(blob, { place, signal });
  if (size !== entry.size) return `has ${size} bytes instead of ${entry.size}`;
  return sum === entry.crc32c ? undefined : 'does not have its sum';
}

/** What is wrong with a copy as it is read from here. */
async function readCopy(
  store: Store,
  { blob, place, entry }: Copy,
  onBytes: (bytes: number) => void,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const sums = decodeChunks(entry);
  const bad: number[] = [];
  let [at, crc] = [0, 0];
  for await (const bytes of store.read(blob, { place, signal })) {
    for (let from = 0; from < bytes.byteLength; ) {
      const room = CHUNK_BYTES - (at % CHUNK_BYTES);
      const piece = bytes.subarray(from, from + room);
      crc = crc32c(piece, crc);
      from += piece.byteLength;
      at += piece.byteLength;
      if (at % CHUNK_BYTES !== 0 && at !== entry.size) continue;
      const index = Math.ceil(at / CHUNK_BYTES) - 1;
      if (crc !== sums[index]) bad.push(index);
      crc = 0;
    }
    onBytes(bytes.byteLength);
  }
  if (at !== entry.size) return `has ${at} bytes instead of ${entry.size}`;
  if (bad.length === 0) return undefined;
  const ranges = bad.slice(0, 3).map((index) => {
    const start = index * CHUNK_BYTES;
    return `${start} to ${Math.min(start + CHUNK_BYTES, entry.size)}`;
  });
  const more = bad.length > 3 ? ` and ${bad.length - 3} more chunks` : '';
  return `is damaged in bytes ${ranges.join(', ')}${more}`;
}

async function manifestCopies(
  store: Store,
  namespace: string,
  manifest: Manifest,
  signal: AbortSignal | undefined,
): Promise<CopyReport[]> {
  const name = manifestBlob(namespace, manifest);
  const expected = Buffer.from(encodeManifest(manifest));
  const places = await store.locate(name, { signal });
  return Promise.all(
    places.map(async (place) => {
      const problem = await problemOf(async () => {
        const other = await readManifestAt(store, name, place, { signal });
        return expected.equals(encodeManifest(other)) ? undefined : 'differs from the others';
      }, signal);
      return { place, problem };
    }),
  );
}

/** Of the checkpoint as a reader sees it, who takes each chunk from a copy where it is good. */
async function tensorProblems(
  store: Store,
  namespace: string,
  manifest: Manifest,
  signal: AbortSignal | undefined,
  onBytes: (bytes: number) => void,
): Promise<string[]> {
  const reader = new VerifiedReader(store, manifest, { namespace, signal });
  let bundle: BundleReader;
  try {
    bundle = await BundleReader.open(reader, manifest.prefix);
  } catch (error) {
    return [explain(error, signal)];
  }
  const problems: string[] = [];
  const { tensors } = bundle.index;
  if (tensors.size !== manifest.tensors)
    problems.push(`the index has ${tensors.size} tensors, the manifest says ${manifest.tensors}`);
  for (const { name, shape, pieces } of tensors.values()) {
    const covered = pieces.reduce((sum, { slice }) => sum + elementCount(boxOf(shape, slice).lengths), 0);
    if (covered !== elementCount(shape)) problems.push(`the slices of ${name} do not make up its whole`);
    try {
      await bundle.verify(name, { signal });
    } catch (error) {
      problems.push(`${name}: ${explain(error, signal)}`);
    }
    onBytes(pieces.reduce((sum, { size }) => sum + size, 0));
  }
  return problems;
}

async function problemOf(
  look: () => Promise<string | undefined>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  try {
    return await look();
  } catch (error) {
    return `cannot be read: ${explain(error, signal)}`;
  }
}

/** An error of a copy as a line. One that ends the whole of it is thrown on. */
function explain(error: unknown, signal: AbortSignal | undefined): string {
  if (signal?.aborted) throw error;
  if (!isShoalError(error) && !isSystemError(error)) throw error;
  return firstLineOf(error);
}

/** Runs the work for all items, a few at a time. */
async function eachOf<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  const lane = async () => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
}
