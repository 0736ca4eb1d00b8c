/**
 * Reads ranges of a checkpoint's files from a store, and verifies every chunk by the checksum in the manifest. A
 * damaged, truncated or unreachable copy is reported and skipped for another one.
 */
import { crc32c } from '../../../base/bytes/crc32c.js';
import type { LentBytes } from '../../../base/bytes/lent-bytes.js';
import {
  describeError,
  isShoalError,
  messageOf,
  type ShoalCode,
  ShoalError,
} from '../../../base/errors/errors.js';
import { isCopyFault, isExhausted } from '../../../base/errors/system-error.js';
import { type RangeReader, Spoiled } from '../../../tensorflow/formats/range-reader.js';
import { isAligned } from '../../store/disk/aligned.js';
import { readInto } from '../../store/disk/read-into.js';
import { KeptFiles } from '../../store/kept-files.js';
import type { BlobSource, Store } from '../../store/store.js';
import { decodeChunks, type Manifest, type ManifestFile } from '../format/manifest.js';
import { fileBlob } from '../format/names.js';
import type { DamagedCopy } from '../format/read-manifest.js';
import { CHUNK_BYTES } from '../format/shard-image.js';
import { type Chunk, ChunkCache } from './chunk-cache.js';

export interface VerifiedReaderOptions {
  readonly namespace: string;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  /** Whether local files stay open until `close`; default: false. */
  readonly keepsOpen?: boolean;
  /** Called when a copy is skipped. */
  readonly onDamage?: (line: string) => void;
}

interface OpenFile {
  readonly entry: ManifestFile;
  readonly sums: Uint32Array;
  /** Places in the order of use; located once, and again after all have failed. */
  places: Promise<readonly string[]> | undefined;
}

/** Chunks that are fetched concurrently: while one is verified, the others are being read. */
const AT_ONCE = 4;
/** Errors that do not prove damage of the copy. */
const AWAY: ReadonlySet<ShoalCode> = new Set<ShoalCode>([
  'SHOAL_UNREACHABLE',
  'SHOAL_TIMEOUT',
  'SHOAL_NOT_FOUND',
]);

export class VerifiedReader implements RangeReader {
  readonly #store: Store;
  readonly #manifest: Manifest;
  readonly #options: VerifiedReaderOptions;
  readonly #files = new Map<string, OpenFile>();
  readonly #chunks = new ChunkCache();
  readonly #kept: KeptFiles | undefined;
  readonly #damaged = new Map<string, DamagedCopy>();
  #bytesRead = 0;

  constructor(store: Store, manifest: Manifest, options: VerifiedReaderOptions) {
    this.#store = store;
    this.#manifest = manifest;
    this.#options = options;
    this.#kept = options.keepsOpen ? new KeptFiles() : undefined;
  }

  /** Bytes read from the store. */
  get bytesRead(): number {
    return this.#bytesRead;
  }

  /** Skipped copies whose bytes are damaged. */
  get damaged(): readonly DamagedCopy[] {
    return [...this.#damaged.values()];
  }

  size(file: string): Promise<number> {
    return Promise.resolve(this.#open(file).entry.size);
  }

  async read(file: string, offset: number, length: number, into?: Uint8Array): Promise<Uint8Array> {
    const target = into ?? Buffer.allocUnsafeSlow(this.#checked(file, offset, length));
    await this.pour(file, offset, length, (bytes, at) => target.set(bytes, at));
    return target;
  }

  /** Checks that the file has the range; returns its length. */
  #checked(file: string, offset: number, length: number): number {
    if (offset + length > this.#open(file).entry.size)
      throw new ShoalError('SHOAL_CORRUPT', `${file} has no bytes [${offset}, ${offset + length})`);
    return length;
  }

  async pour(
    file: string,
    offset: number,
    length: number,
    take: (bytes: Uint8Array, at: number) => void,
    place?: (at: number, length: number) => LentBytes,
  ): Promise<void> {
    this.#checked(file, offset, length);
    const open = this.#open(file);
    const end = Math.ceil((offset + length) / CHUNK_BYTES);
    const underWay: UnderWay[] = [];
    let next = Math.floor(offset / CHUNK_BYTES);
    const begin = (index: number): UnderWay => {
      const [start, stop] = rangeOf(open, index);
      const lent =
        place && start >= offset && stop <= offset + length ? place(start - offset, stop - start) : undefined;
      if (lent && isAligned(lent.bytes, start)) {
        const direct = this.#fetchDirect(open, index, lent);
        // Awaited below, in order.
        direct.catch(() => {});
        return { index, direct, chunk: undefined };
      }
      lent?.giveBack();
      return { index, direct: undefined, chunk: this.#acquire(open, index) };
    };
    const more = () => {
      for (; length > 0 && next < end && underWay.length < AT_ONCE; next++) underWay.push(begin(next));
    };
    const release = ({ index, chunk }: UnderWay) => {
      if (chunk) this.#chunks.release(nameOf(open, index), chunk);
    };
    try {
      for (more(); underWay.length > 0; more()) {
        const one = underWay[0]!;
        if (!(await one.direct)) {
          one.chunk ??= this.#acquire(open, one.index);
          const bytes = await one.chunk.bytes;
          const [start, stop] = rangeOf(open, one.index);
          const [from, to] = [Math.max(offset, start), Math.min(offset + length, stop)];
          take(bytes.subarray(from - start, to - start), from - offset);
        }
        underWay.shift();
        release(one);
      }
    } finally {
      underWay.forEach(release);
    }
  }

  /** Releases memory and files. */
  close(): void {
    this.#chunks.clear();
    this.#kept?.close();
  }

  #open(file: string): OpenFile {
    const known = this.#files.get(file);
    if (known) return known;
    const entry = this.#manifest.files.find((candidate) => candidate.file === file);
    if (!entry) throw new ShoalError('SHOAL_NOT_FOUND', `The checkpoint has no file ${file}`);
    const open: OpenFile = { entry, sums: decodeChunks(entry), places: undefined };
    this.#files.set(file, open);
    return open;
  }

  /** A verified chunk. */
  #acquire(open: OpenFile, index: number): Chunk {
    return this.#chunks.acquire(nameOf(open, index), (memory) => this.#fetch(open, index, memory));
  }

  /**
   * Reads a chunk directly into its target memory; false if that failed, and the chunk must be fetched the normal way.
   */
  async #fetchDirect(open: OpenFile, index: number, { bytes, giveBack }: LentBytes): Promise<boolean> {
    open.places ??= this.#locate(open.entry);
    const [place] = await open.places.catch(() => []);
    if (place === undefined) {
      giveBack();
      return false;
    }
    let onIdle = () => {};
    const idle = new Promise<void>((resolve) => {
      onIdle = resolve;
    });
    try {
      await this.#fetchFrom(place, open.entry.file, rangeOf(open, index)[0], bytes, onIdle);
      return crc32c(bytes) === open.sums[index];
    } catch (error) {
      const isAbandoned = this.#options.signal?.aborted || isShoalError(error, 'SHOAL_TIMEOUT');
      if (isAbandoned) throw new Spoiled(messageOf(error), { cause: error });
      return false;
    } finally {
      // The disk may still write to it.
      void idle.then(giveBack);
    }
  }

  async #fetch(open: OpenFile, index: number, memory: Uint8Array): Promise<Uint8Array> {
    const { file } = open.entry;
    const [start, end] = rangeOf(open, index);
    let into = memory.subarray(0, end - start);
    open.places ??= this.#locate(open.entry);
    const failures: string[] = [];
    let isDamaged = false;
    let exhausted: unknown;
    for (const place of await open.places) {
      try {
        await this.#fetchFrom(place, file, start, into);
        this.#verify(open, index, into, place);
        return into;
      } catch (error) {
        // An abandoned read may still write to the old memory: the next place gets new memory.
        into = Buffer.allocUnsafeSlow(end - start);
        this.#options.signal?.throwIfAborted();
        failures.push(`${place}: ${messageOf(error)}`);
        if (isExhausted(error)) exhausted = error;
        else if (!isShoalError(error) && !isCopyFault(error)) throw error;
        else if (!isShoalError(error) || !AWAY.has(error.code)) {
          isDamaged = true;
          const blob = this.#blob(file);
          this.#damaged.set(`${place} ${file}`, { blob, place, crc32c: open.entry.crc32c });
        }
        this.#options.onDamage?.(`${file} at ${place} is skipped: ${describeError(error)}`);
        // Later chunks are read from other copies first.
        open.places = open.places?.then((places) => [...places.filter((other) => other !== place), place]);
      }
    }
    open.places = undefined;
    // A lack of local resources does not mean that the checkpoint is damaged.
    if (exhausted !== undefined) throw exhausted;
    throw new ShoalError(
      isDamaged ? 'SHOAL_CORRUPT' : 'SHOAL_UNREACHABLE',
      failures.length > 0
        ? `No good copy of ${file} (bytes [${start}, ${end})) is reachable: ${failures.join('; ')}`
        : `No copy of ${file} is reachable; it was saved to ${open.entry.places.join(', ')}`,
      { hint: 'Start the tasks that hold it, or restore an older checkpoint.' },
    );
  }

  /** The places that currently have a copy. */
  #locate(entry: ManifestFile): Promise<readonly string[]> {
    const { signal, timeoutMs } = this.#options;
    return this.#store.locate(this.#blob(entry.file), { signal, timeoutMs });
  }

  #blob(file: string): string {
    return fileBlob(this.#options.namespace, this.#manifest, file);
  }

  async #fetchFrom(
    place: string,
    file: string,
    start: number,
    into: Uint8Array,
    onIdle?: () => void,
  ): Promise<void> {
    const { signal, timeoutMs } = this.#options;
    const kept = this.#kept;
    await readInto(this.#store, this.#blob(file), into, { start, place, signal, timeoutMs, onIdle, kept });
    this.#bytesRead += into.byteLength;
  }

  #verify({ sums }: OpenFile, index: number, bytes: Uint8Array, place: string): void {
    if (crc32c(bytes) === sums[index]) return;
    throw new ShoalError('SHOAL_CORRUPT', `chunk ${index} at ${place} has a wrong checksum`);
  }
}

/** Chunks that are read at once, so that several are fetched concurrently. */
const STEP_BYTES = AT_ONCE * CHUNK_BYTES;

/** A file of a checkpoint as the source of a copy: verified, in pieces of several chunks. */
export const fileSource = (
  reader: VerifiedReader,
  { file, size }: Pick<ManifestFile, 'file' | 'size'>,
): BlobSource =>
  async function* (offset) {
    const memory = Buffer.allocUnsafeSlow(Math.min(STEP_BYTES, size - offset));
    for (let at = offset; at < size; ) {
      const length = Math.min(STEP_BYTES, size - at);
      yield await reader.read(file, at, length, memory.subarray(0, length));
      at += length;
    }
  };

interface UnderWay {
  readonly index: number;
  /** Whether the direct read succeeded, if one is tried. */
  readonly direct: Promise<boolean> | undefined;
  chunk: Chunk | undefined;
}

const rangeOf = ({ entry }: OpenFile, index: number): readonly [start: number, end: number] => {
  const start = index * CHUNK_BYTES;
  return [start, Math.min(entry.size, start + CHUNK_BYTES)];
};

const nameOf = ({ entry }: OpenFile, index: number): string => `${index} ${entry.file}`;
