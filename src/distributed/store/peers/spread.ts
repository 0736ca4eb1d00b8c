/**
 * Writes one blob to several disks concurrently: to the own disk and to those of other tasks, each in its own pass over
 * the source. The own copy is published last, as the commit: if the source fails, no other task can store the blob, or
 * one refuses it, no copy remains.
 */
import { throwIfAborted } from '../../../base/async/deadline.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { DirectoryStore, StagedBlob } from '../disk/directory-store.js';
import { guarded, slices, sourceOf } from '../sources.js';
import type { BlobSource, PutOptions, PutResult } from '../store.js';
import { checkOwn, type PeerMember, PeerRefusal, type Peers } from './peers.js';
import { WatchedSource } from './watched-source.js';

export interface Spreading {
  readonly peers: Peers;
  readonly directory: Pick<DirectoryStore, 'stage'>;
  /** The tasks that get a copy. */
  readonly chosen: readonly PeerMember[];
  /** Substitutes for tasks that fail. */
  readonly spare: readonly PeerMember[];
  /** The requested number of copies on other tasks. */
  readonly wanted: number;
}

interface Failure {
  readonly place: string;
  readonly error: unknown;
}

const STALL_MS = 30_000;
const UNDO_MS = 5000;

export function spread(
  spreading: Spreading,
  name: string,
  source: BlobSource | Uint8Array,
  options: PutOptions,
): Promise<PutResult> {
  return new Spread(spreading, name, source, options).write();
}

class Spread {
  readonly #to: Spreading;
  readonly #name: string;
  readonly #options: PutOptions;
  readonly #timeoutMs: number;
  readonly #from: BlobSource;
  readonly #size: number | undefined;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #sum: Sum;
  readonly #substitutes: PeerMember[];
  readonly #failures: Failure[] = [];
  #refusal: PeerRefusal | undefined;

  constructor(to: Spreading, name: string, source: BlobSource | Uint8Array, options: PutOptions) {
    this.#to = to;
    this.#name = name;
    this.#options = options;
    this.#timeoutMs = options.timeoutMs ?? STALL_MS;
    this.#from = sourceOf(source);
    this.#size = source instanceof Uint8Array ? source.byteLength : options.size;
    this.#signal = anyOf(options.signal, this.#stop.signal);
    this.#sum = new Sum(options.crc32c);
    this.#substitutes = [...to.spare];
  }

  async write(): Promise<PutResult> {
    const { peers, chosen, wanted } = this.#to;
    const copies = Promise.all(chosen.map(({ place }) => this.#copy(place)));
    const held = async () => (await copies).filter((place) => place !== undefined);
    let staged: StagedBlob | undefined;
    try {
      staged = await this.#stage();
      const places = await held();
      this.#check(places);
      await staged.commit();
      return {
        published: true,
        size: staged.size,
        crc32c: staged.crc32c,
        places: [peers.self, ...places],
        shortfall: wanted - places.length,
        readBack: staged.isReadBack ? [peers.self] : [],
      };
    } catch (error) {
      this.#sum.fail(error);
      this.#stop.abort(error);
      await Promise.all([staged?.discard(), held().then((places) => this.#remove(places))]);
      throw this.#refusal ?? error;
    }
  }

  /** Sends to a place, or to a substitute; returns where the copy is. */
  async #copy(place: string): Promise<string | undefined> {
    let done = await this.#send(place);
    while (done === undefined && !this.#signal.aborted) {
      const other = this.#substitutes.shift();
      if (!other) break;
      done = await this.#send(other.place);
    }
    return done;
  }

  async #send(place: string): Promise<string | undefined> {
    const pass = new WatchedSource(this.#from, this.#timeoutMs);
    try {
      await this.#to.peers.blobs(place).write(this.#name, pass.open, {
        size: this.#size,
        signal: anyOf(this.#signal, pass.signal),
        // The pass times out first, with a more specific error.
        timeoutMs: 2 * this.#timeoutMs,
        crc32c: () => pass.waitFor(this.#sum.complete),
        orderedBy: this.#options.orderedBy,
      });
      return place;
    } catch (error) {
      this.#failures.push({ place, error: pass.signal.aborted ? pass.signal.reason : error });
      if (error instanceof PeerRefusal) {
        this.#refusal ??= error;
        this.#stop.abort(error);
      }
      return undefined;
    } finally {
      pass.close();
    }
  }

  /** Writes the own copy, without publishing it. */
  #stage(): Promise<StagedBlob> {
    const bounds = { signal: this.#signal, timeoutMs: this.#timeoutMs };
    const chunks = this.#sum.of(guarded(this.#from(0), this.#what, bounds));
    const { readBack, lasting, orderedBy } = this.#options;
    return this.#to.directory.stage(this.#name, chunks, {
      ...bounds,
      size: this.#size,
      crc32c: () => this.#sum.soFar,
      readBack,
      lasting,
      orderedBy,
    });
  }

  /** Throws why the blob may not be published. */
  #check(places: readonly string[]): void {
    const { peers, chosen } = this.#to;
    throwIfAborted(this.#what, this.#options.signal);
    if (this.#refusal) throw this.#refusal;
    checkOwn(peers, this.#name, this.#options.orderedBy);
    if (chosen.length > 0 && places.length === 0) throw noReplica(this.#name, this.#failures);
  }

  async #remove(places: readonly string[]): Promise<void> {
    const gone = places.map((place) =>
      this.#to.peers.blobs(place).remove(this.#name, { timeoutMs: UNDO_MS }),
    );
    // The original error is reported. No manifest refers to a copy that cannot be removed.
    await Promise.allSettled(gone);
  }

  get #what(): string {
    return `writing blob ${this.#name}`;
  }
}

/** The crc32c of one pass, shared by all that send the same bytes. */
class Sum {
  readonly complete: Promise<number>;
  soFar = 0;
  readonly #known: (() => number) | undefined;
  #settle: { readonly resolve: (crc: number) => void; readonly reject: (error: unknown) => void };

  constructor(known: (() => number) | undefined) {
    this.#known = known;
    this.#settle = { resolve: () => {}, reject: () => {} };
    this.complete = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.complete.catch(() => {});
  }

  /** The pass did not complete, so there is no sum. */
  fail(error: unknown): void {
    this.#settle.reject(error);
  }

  async *of(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of chunks) {
        for (const piece of slices(chunk)) {
          if (this.#known === undefined) this.soFar = crc32c(piece, this.soFar);
          yield piece;
        }
      }
      this.soFar = this.#known?.() ?? this.soFar;
      this.#settle.resolve(this.soFar);
    } finally {
      this.fail(new ShoalError('SHOAL_ABORTED', 'reading the source was aborted'));
    }
  }
}

function anyOf(a: AbortSignal | undefined, b: AbortSignal): AbortSignal {
  return a === undefined ? b : AbortSignal.any([a, b]);
}

function noReplica(name: string, failures: readonly Failure[]): ShoalError {
  const why = failures.map(({ place, error }) => `${place}: ${messageOf(error)}`).join('; ');
  const isFull = failures.every(({ error }) => isShoalError(error, 'SHOAL_NO_SPACE'));
  return new ShoalError(
    isFull ? 'SHOAL_NO_SPACE' : 'SHOAL_UNREACHABLE',
    `blob ${name} has no copy on another task: ${why}`,
    {
      hint: 'a blob on a single disk would be lost with it: fix the tasks named here, or set replicas to 0',
      cause: failures[0]?.error,
    },
  );
}
