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

export async function spread(
  { peers, directory, chosen, spare, wanted }: Spreading,
  name: string,
  source: BlobSource | Uint8Array,
  options: PutOptions,
): Promise<PutResult> {
  const { timeoutMs = STALL_MS, orderedBy } = options;
  const what = `writing blob ${name}`;
  const from = sourceOf(source);
  const size = source instanceof Uint8Array ? source.byteLength : options.size;
  const stop = new AbortController();
  const signal = anyOf(options.signal, stop.signal);
  const sum = new Sum(options.crc32c);
  const substitutes = [...spare];
  const failures: Failure[] = [];
  let refusal: PeerRefusal | undefined;

  const send = async (place: string): Promise<string | undefined> => {
    const pass = new WatchedSource(from, timeoutMs);
    try {
      await peers.blobs(place).write(name, pass.open, {
        size,
        signal: anyOf(signal, pass.signal),
        // The pass times out first, with a more specific error.
        timeoutMs: 2 * timeoutMs,
        crc32c: () => pass.waitFor(sum.complete),
        orderedBy,
      });
      return place;
    } catch (error) {
      failures.push({ place, error: pass.signal.aborted ? pass.signal.reason : error });
      if (error instanceof PeerRefusal) {
        refusal ??= error;
        stop.abort(error);
      }
      return undefined;
    } finally {
      pass.close();
    }
  };
  const copies = Promise.all(
    chosen.map(async ({ place }) => {
      let done = await send(place);
      while (done === undefined && !signal.aborted) {
        const other = substitutes.shift();
        if (!other) break;
        done = await send(other.place);
      }
      return done;
    }),
  );
  const held = async () => (await copies).filter((place) => place !== undefined);
  const undo = async () => {
    const gone = (await held()).map((place) => peers.blobs(place).remove(name, { timeoutMs: UNDO_MS }));
    // The original error is reported. No manifest refers to a copy that cannot be removed.
    await Promise.allSettled(gone);
  };

  let staged: StagedBlob | undefined;
  try {
    const chunks = sum.of(guarded(from(0), what, { signal, timeoutMs }));
    const { readBack, lasting } = options;
    staged = await directory.stage(name, chunks, {
      signal,
      timeoutMs,
      size,
      crc32c: () => sum.soFar,
      readBack,
      lasting,
      orderedBy,
    });
    const places = await held();
    throwIfAborted(what, options.signal);
    if (refusal) throw refusal;
    checkOwn(peers, name, orderedBy);
    if (chosen.length > 0 && places.length === 0) throw noReplica(name, failures);
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
    sum.fail(error);
    stop.abort(error);
    await Promise.all([staged?.discard(), undo()]);
    throw refusal ?? error;
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
