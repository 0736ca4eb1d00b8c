/**
 * Reads the files of a checkpoint from a store, in ranges, and gives no byte whose chunk does not have the sum that the
 * manifest says. A copy that is damaged, too short or out of reach is passed over for another one, and told of.
 */
import { crc32c } from '../bytes/crc32c.js';
import { isShoalError, messageOf, type ShoalCode, ShoalError } from '../errors/errors.js';
import type { RangeReader } from '../formats/range-reader.js';
import type { Store } from '../store/store.js';
import { decodeChunks, type Manifest, type ManifestFile } from './manifest.js';
import { fileBlob } from './names.js';
import { CHUNK_BYTES } from './shard-image.js';

export interface ReaderOptions {
  readonly namespace: string;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** A copy was passed over. */
  readonly onDamage?: (line: string) => void;
}

interface OpenFile {
  readonly entry: ManifestFile;
  readonly sums: Uint32Array;
  /** Places in the order in which they are tried; asked for once, and again when all have failed. */
  places: Promise<readonly string[]> | undefined;
}

/** Chunks that were read and may be wanted again: neighbouring reads share one at their border. */
const KEPT_CHUNKS = 8;
/** A read that goes on where the last one ended fetches this many chunks in one go. */
const RUN_CHUNKS = 4;
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
  readonly #chunks = new Map<string, Promise<Uint8Array>>();
  #bytesRead = 0;

  constructor(store: Store, manifest: Manifest, options: ReaderOptions) {
    this.#store = store;
    this.#manifest = manifest;
    this.#options = options;
  }

  /** Bytes that came from the store. */
  get bytesRead(): number {
    return this.#bytesRead;
  }

  size(file: string): Promise<number> {
    return Promise.resolve(this.#open(file).entry.size);
  }

  async read(file: string, offset: number, length: number, into?: Uint8Array): Promise<Uint8Array> {
    const open = this.#open(file);
    if (offset + length > open.entry.size) {
      throw new ShoalError('SHOAL_CORRUPT', `${file} has no bytes ${offset} to ${offset + length}`);
    }
    const target = into ?? Buffer.allocUnsafeSlow(length);
    const last = Math.floor((offset + Math.max(length, 1) - 1) / CHUNK_BYTES);
    for (let index = Math.floor(offset / CHUNK_BYTES); length > 0 && index <= last; index++) {
      const chunk = await this.#chunk(open, index, last);
      const start = index * CHUNK_BYTES;
      const from = Math.max(offset, start);
      const to = Math.min(offset + length, start + chunk.byteLength);
      target.set(chunk.subarray(from - start, to - start), from - offset);
    }
    return target;
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

  /** A chunk that is verified. Those behind it, up to the last that is wanted, are fetched with it. */
  #chunk(open: OpenFile, index: number, last: number): Promise<Uint8Array> {
    const key = (at: number) => `${at} ${open.entry.file}`;
    const kept = this.#chunks.get(key(index));
    if (kept) return kept;
    let count = 1;
    while (count < RUN_CHUNKS && index + count <= last && !this.#chunks.has(key(index + count))) count += 1;
    const run = this.#fetch(open, index, count);
    for (let i = 0; i < count; i++) {
      const chunk = run.then((bytes) => bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES));
      chunk.catch(() => this.#chunks.delete(key(index + i)));
      this.#chunks.set(key(index + i), chunk);
    }
    for (const old of this.#chunks.keys()) {
      if (this.#chunks.size <= KEPT_CHUNKS) break;
      this.#chunks.delete(old);
    }
    return this.#chunks.get(key(index)) ?? run;
  }

  async #fetch(open: OpenFile, index: number, count: number): Promise<Uint8Array> {
    const { file, size } = open.entry;
    const start = index * CHUNK_BYTES;
    const end = Math.min(size, start + count * CHUNK_BYTES);
    open.places ??= this.#locate(open.entry);
    const failures: string[] = [];
    let isDamaged = false;
    for (const place of await open.places) {
      try {
        const bytes = await this.#fetchFrom(place, file, start, end);
        this.#verify(open, index, bytes, place);
        return bytes;
      } catch (error) {
        this.#options.signal?.throwIfAborted();
        failures.push(`${place}: ${messageOf(error)}`);
        if (!isShoalError(error)) throw error;
        isDamaged ||= !AWAY.has(error.code);
        this.#options.onDamage?.(`${file} at ${place} is passed over: ${messageOf(error)}`);
        // Later chunks are asked of the copies that have worked.
        open.places = open.places.then((places) => [...places.filter((other) => other !== place), place]);
      }
    }
    open.places = undefined;
    if (isDamaged && count > 1) {
      // Copies that are damaged in different chunks have all of them between them.
      const chunks: Uint8Array[] = [];
      for (let i = 0; i < count && start + i * CHUNK_BYTES < end; i++) {
        chunks.push(await this.#fetch(open, index + i, 1));
      }
      return Buffer.concat(chunks);
    }
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

  async #fetchFrom(place: string, file: string, start: number, end: number): Promise<Uint8Array> {
    const { signal, timeoutMs } = this.#options;
    const bytes = Buffer.allocUnsafeSlow(end - start);
    let at = 0;
    const stream = this.#store.read(this.#blob(file), { start, end, place, signal, timeoutMs });
    for await (const chunk of stream) {
      if (at + chunk.byteLength > bytes.byteLength) break;
      bytes.set(chunk, at);
      at += chunk.byteLength;
    }
    this.#bytesRead += at;
    if (at !== bytes.byteLength)
      throw new ShoalError('SHOAL_CORRUPT', `it gave ${at} bytes instead of ${bytes.byteLength}`);
    return bytes;
  }

  #verify({ sums }: OpenFile, index: number, bytes: Uint8Array, place: string): void {
    for (let i = 0; i * CHUNK_BYTES < bytes.byteLength; i++) {
      const found = crc32c(bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES));
      if (found !== sums[index + i]) {
        throw new ShoalError('SHOAL_CORRUPT', `chunk ${index + i} at ${place} does not have its sum`);
      }
    }
  }
}
