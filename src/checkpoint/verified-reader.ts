/**
 * Reads the files of a checkpoint from a store, in ranges, and gives no byte whose chunk does not have the sum that the
 * manifest says. A copy that is damaged, too short or out of reach is passed over for another one, and told of.
 */
import { crc32c } from '../bytes/crc32c.js';
import type { LentBytes } from '../bytes/lent-bytes.js';
import { isShoalError, messageOf, type ShoalCode, ShoalError } from '../errors/errors.js';
import { isCopyFault, isExhausted } from '../errors/system-error.js';
import { type RangeReader, Spoiled } from '../formats/range-reader.js';
import { isAligned } from '../store/disk/aligned.js';
import { readInto } from '../store/disk/read-into.js';
import { KeptFiles } from '../store/kept-files.js';
import type { Store } from '../store/store.js';
import { type Chunk, ChunkCache } from './chunk-cache.js';
import { decodeChunks, type Manifest, type ManifestFile } from './manifest.js';
import { fileBlob } from './names.js';
import type { DamagedCopy } from './read-manifest.js';
import { CHUNK_BYTES } from './shard-image.js';

export interface ReaderOptions {
  readonly namespace: string;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** Whether files of this disk stay open until `close`. */
  readonly keepsOpen?: boolean | undefined;
  /** A copy was passed over. */
  readonly onDamage?: (line: string) => void;
}

interface OpenFile {
  readonly entry: ManifestFile;
  readonly sums: Uint32Array;
  /** Places in the order in which they are tried; asked for once, and again when all have failed. */
  places: Promise<readonly string[]> | undefined;
}

/** Chunks that are fetched at once: while one is verified the others are on their way. */
const AT_ONCE = 4;
/** Errors that say nothing about the copy itself. */
const AWAY: ReadonlySet<ShoalCode> = new Set<ShoalCode>([
  'SHOAL_UNREACHABLE',
  'SHOAL_TIMEOUT',
  'SHOAL_NOT_FOUND',
]);

export class VerifiedReader implements RangeReader {
  readonly #store: Store;
  readonly #manifest: Manifest;
  readonly #options: ReaderOptions;
  readonly #files = new Map<string, OpenFile>();
  readonly #chunks = new ChunkCache();
  readonly #kept: KeptFiles | undefined;
  readonly #damaged = new Map<string, DamagedCopy>();
  #bytesRead = 0;

  constructor(store: Store, manifest: Manifest, options: ReaderOptions) {
    this.#store = store;
    this.#manifest = manifest;
    this.#options = options;
    this.#kept = options.keepsOpen ? new KeptFiles() : undefined;
  }

  /** Bytes that came from the store. */
  get bytesRead(): number {
    return this.#bytesRead;
  }

  /** Copies that were passed over since they do not give the bytes that were saved. */
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

  /** The length of a range that the file has. */
  #checked(file: string, offset: number, length: number): number {
    if (offset + length > this.#open(file).entry.size)
      throw new ShoalError('SHOAL_CORRUPT', `${file} has no bytes ${offset} to ${offset + length}`);
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
        const straight = this.#fetchStraight(open, index, lent);
        // Awaited in its turn.
        straight.catch(() => {});
        return { index, straight, chunk: undefined };
      }
      lent?.giveBack();
      return { index, straight: undefined, chunk: this.#acquire(open, index) };
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
        if (!(await one.straight)) {
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

  /** Nobody will read from it any more. */
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

  /** A chunk that is verified. */
  #acquire(open: OpenFile, index: number): Chunk {
    return this.#chunks.acquire(nameOf(open, index), (memory) => this.#fetch(open, index, memory));
  }

  /** Puts a chunk where it belongs; false when it is not good there, and to be had in the ordinary way. */
  async #fetchStraight(open: OpenFile, index: number, { bytes, giveBack }: LentBytes): Promise<boolean> {
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
      const isGivenUp = this.#options.signal?.aborted || isShoalError(error, 'SHOAL_TIMEOUT');
      if (isGivenUp) throw new Spoiled(messageOf(error), { cause: error });
      return false;
    } finally {
      // A disk may yet write to it.
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
        // A read that was given up may yet come in: what comes from elsewhere goes elsewhere.
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
        this.#options.onDamage?.(`${file} at ${place} is passed over: ${messageOf(error)}`);
        // Later chunks are asked of the copies that have worked.
        open.places = open.places?.then((places) => [...places.filter((other) => other !== place), place]);
      }
    }
    open.places = undefined;
    // It says nothing about the copies: no reason to take the checkpoint for damaged.
    if (exhausted !== undefined) throw exhausted;
    throw new ShoalError(
      isDamaged ? 'SHOAL_CORRUPT' : 'SHOAL_UNREACHABLE',
      failures.length > 0
        ? `No good copy of ${file} (bytes ${start} to ${end}) is in reach: ${failures.join('; ')}`
        : `No copy of ${file} is in reach; it was put at ${open.entry.places.join(', ')}`,
      { hint: 'Start the tasks that hold it, or restore an older checkpoint.' },
    );
  }

  /** Those who have it now, the ones that were given it first. */
  async #locate(entry: ManifestFile): Promise<readonly string[]> {
    const { signal, timeoutMs } = this.#options;
    const now = await this.#store.locate(this.#blob(entry.file), { signal, timeoutMs });
    return now;
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
    throw new ShoalError('SHOAL_CORRUPT', `chunk ${index} at ${place} does not have its sum`);
  }
}

interface UnderWay {
  readonly index: number;
  /** Whether it has come right to where it belongs, if that is tried. */
  readonly straight: Promise<boolean> | undefined;
  chunk: Chunk | undefined;
}

const rangeOf = ({ entry }: OpenFile, index: number): readonly [start: number, end: number] => {
  const start = index * CHUNK_BYTES;
  return [start, Math.min(entry.size, start + CHUNK_BYTES)];
};

const nameOf = ({ entry }: OpenFile, index: number): string => `${index} ${entry.file}`;
