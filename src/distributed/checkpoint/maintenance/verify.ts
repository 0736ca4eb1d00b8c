/**
 * Verifies a checkpoint: reads every copy of every file and compares it with the checksums in the manifest, chunk by
 * chunk; then opens the index and compares every tensor with TensorFlow's checksum.
 */
import { crc32c } from '../../../base/bytes/crc32c.js';
import { firstLineOf, isShoalError } from '../../../base/errors/errors.js';
import { isSystemError } from '../../../base/errors/system-error.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { boxOf, elementCount } from '../../../tensorflow/formats/tensor-bundle/slice.js';
import type { Store } from '../../store/store.js';
import { decodeChunks, encodeManifest, type Manifest, type ManifestFile } from '../format/manifest.js';
import { fileBlob, manifestBlob } from '../format/names.js';
import { readManifestAt } from '../format/read-manifest.js';
import { CHUNK_BYTES } from '../format/shard-image.js';
import { VerifiedReader } from '../reading/verified-reader.js';

export interface VerifyOptions {
  /** Let the holders compute the checksums of their copies: only checksums are sent, and tensors are not checked. */
  readonly quick?: boolean;
  /** How many copies are read concurrently; default: 4. */
  readonly concurrency?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

export interface CopyReport {
  readonly place: string;
  /** Undefined for a good copy. */
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
  /** Problems beyond damaged copies: an unreadable index, a tensor with a wrong checksum. */
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

/** The damaged copies with their files, including the manifest. */
export function damagedCopies({ files, manifestCopies }: VerifyReport): (CopyReport & { file: string })[] {
  const all = [...files, { file: 'manifest', copies: manifestCopies }];
  return all.flatMap(({ file, copies }) =>
    copies.filter((copy) => !isGood(copy)).map((copy) => ({ file, ...copy })),
  );
}

/** Files without an undamaged copy. */
export function lostFiles({ files }: VerifyReport): string[] {
  return files.filter(({ copies }) => !copies.some(isGood)).map(({ file }) => file);
}

export function isUndamaged(report: VerifyReport): boolean {
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

/** The problem of a copy by the checksum that its holder computes. */
async function digestCopy(
  store: Store,
  { blob, place, entry }: Copy,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { size, crc32c: sum } = await store.digest(blob, { place, signal });
  if (size !== entry.size) return `has ${size} bytes instead of ${entry.size}`;
  return sum === entry.crc32c ? undefined : 'has a wrong checksum';
}

/** The problem of a copy by reading it. */
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
    return `[${start}, ${Math.min(start + CHUNK_BYTES, entry.size)})`;
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
        return expected.equals(encodeManifest(other)) ? undefined : 'differs from the other copies';
      }, signal);
      return { place, problem };
    }),
  );
}

/** Problems of the tensors, each chunk read from a good copy. */
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
  const { size } = bundle.index.tensors;
  const isListed = size === manifest.tensors;
  const counted = isListed
    ? []
    : [`the index has ${size} tensors, but the manifest lists ${manifest.tensors}`];
  return [...counted, ...(await bundleProblems(bundle, { signal, onBytes }))];
}

/** Compares every tensor with its checksum; returns what is wrong. */
export async function bundleProblems(
  bundle: BundleReader,
  { signal, onBytes }: { readonly signal?: AbortSignal; readonly onBytes?: (bytes: number) => void },
): Promise<string[]> {
  const problems: string[] = [];
  for (const { name, shape, pieces } of bundle.index.tensors.values()) {
    const covered = pieces.reduce((sum, { slice }) => sum + elementCount(boxOf(shape, slice).lengths), 0);
    if (covered !== elementCount(shape)) problems.push(`the slices of ${name} do not cover the tensor`);
    try {
      await bundle.verify(name, { signal });
    } catch (error) {
      problems.push(`${name}: ${explain(error, signal)}`);
    }
    onBytes?.(pieces.reduce((sum, { size }) => sum + size, 0));
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

/** The first line of an error of a copy. Other errors are rethrown. */
function explain(error: unknown, signal: AbortSignal | undefined): string {
  if (signal?.aborted) throw error;
  if (!isShoalError(error) && !isSystemError(error)) throw error;
  return firstLineOf(error);
}

/** Runs the work for all items with limited concurrency. */
async function eachOf<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  const worker = async () => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
}
