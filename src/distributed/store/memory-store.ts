/** A store in memory, for tests and for training in one process without persistence. */
import { ShoalError } from '../../base/errors/errors.js';
import { blobName, folderOf } from './blob-names.js';
import { notFound } from './disk/blob-disk.js';
import { blobDigest, guarded, rangeWithin, refusePlace, sourceOf } from './sources.js';
import {
  type BlobDigest,
  type BlobInfo,
  type BlobSource,
  HERE,
  type PlacedCallOptions,
  type PutOptions,
  type PutResult,
  type Store,
  type StoreReadOptions,
} from './store.js';

interface Held {
  readonly bytes: Uint8Array;
  readonly modifiedMs: number;
}

export class MemoryStore implements Store {
  readonly kind = 'memory';
  readonly url = 'memory:';
  readonly #blobs = new Map<string, Held>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  async put(
    name: string,
    source: BlobSource | Uint8Array,
    { ifAbsent = false, size: expected, ...bounds }: PutOptions = {},
  ): Promise<PutResult> {
    blobName(name);
    const chunks: Uint8Array[] = [];
    const what = `writing blob ${name} to ${this.url}`;
    for await (const chunk of guarded(sourceOf(source)(0), what, bounds)) chunks.push(Buffer.from(chunk));
    const bytes = Buffer.concat(chunks);
    if (expected !== undefined && expected !== bytes.byteLength) {
      throw new ShoalError(
        'SHOAL_CORRUPT',
        `blob ${name} has ${bytes.byteLength} bytes, expected ${expected}`,
      );
    }
    const digest = await blobDigest(sourceOf(bytes)(0));
    const published = !(ifAbsent && this.#blobs.has(name));
    if (published) this.#blobs.set(name, { bytes, modifiedMs: this.#now() });
    return { published, ...digest, places: [HERE], shortfall: 0 };
  }

  async *read(name: string, options: StoreReadOptions = {}): AsyncGenerator<Uint8Array> {
    refusePlace(this.url, options.place, HERE);
    const { bytes } = this.#held(name);
    const [start, end] = rangeWithin(name, bytes.byteLength, options);
    yield* guarded(sourceOf(bytes.subarray(start, end))(0), `reading blob ${name} of ${this.url}`, options);
  }

  async locate(name: string): Promise<readonly string[]> {
    return this.#blobs.has(blobName(name)) ? [HERE] : [];
  }

  async stat(name: string, { place }: PlacedCallOptions = {}): Promise<BlobInfo | undefined> {
    refusePlace(this.url, place, HERE);
    const held = this.#blobs.get(blobName(name));
    return held && info(name, held);
  }

  async digest(name: string, { place }: PlacedCallOptions = {}): Promise<BlobDigest> {
    refusePlace(this.url, place, HERE);
    return blobDigest(sourceOf(this.#held(name).bytes)(0));
  }

  async *list(prefix = ''): AsyncGenerator<BlobInfo> {
    folderOf(prefix);
    for (const [name, held] of [...this.#blobs]) if (name.startsWith(prefix)) yield info(name, held);
  }

  async remove(name: string, { place }: PlacedCallOptions = {}): Promise<void> {
    refusePlace(this.url, place, HERE);
    this.#blobs.delete(blobName(name));
  }

  async copy(name: string, to: string): Promise<void> {
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `${this.url} keeps one copy: ${name} cannot be copied to ${to}`,
    );
  }

  async sweep(): Promise<number> {
    return 0;
  }

  async close(): Promise<void> {}

  #held(name: string): Held {
    const held = this.#blobs.get(blobName(name));
    if (held === undefined) throw notFound(name);
    return held;
  }
}

function info(name: string, { bytes, modifiedMs }: Held): BlobInfo {
  return { name, size: bytes.byteLength, modifiedMs, places: [HERE] };
}
