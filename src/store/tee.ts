/**
 * One pass over a source for several takers. Each branch holds a bounded window of chunks; the pass waits for
 * the slowest branch, and a branch that takes nothing for too long is given up. A branch that must go back,
 * because its way was cut, leaves the common pass and makes one of its own.
 */
import { ShoalError } from '../errors/errors.js';
import { slices } from './sources.js';
import type { BlobSource } from './store.js';

const WINDOW_BYTES = 16 << 20;

export class Branch {
  readonly #source: BlobSource;
  readonly #stallMs: number;
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #queue: Uint8Array[] = [];
  #queued = 0;
  /** The offset of the first chunk in the queue. */
  #head = 0;
  #shared: boolean;
  #turn = 0;
  #closed = false;
  #end: { readonly error?: unknown } | undefined;
  #waiting: (() => void)[] = [];

  /** `shared` unless it makes its own pass from the start. */
  constructor(
    source: BlobSource,
    { stallMs, shared }: { readonly stallMs: number; readonly shared: boolean },
  ) {
    this.#source = source;
    this.#stallMs = stallMs;
    this.#shared = shared;
    this.#expect();
  }

  /** Fires when the branch is given up. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Takes a chunk of the common pass; resolves when there is room for another. */
  async push(chunk: Uint8Array): Promise<void> {
    if (!this.#shared) return;
    this.#queue.push(chunk);
    this.#queued += chunk.byteLength;
    this.#notify();
    while (this.#shared && this.#queued > WINDOW_BYTES) await this.#change();
  }

  /** The common pass is over, well or not. */
  end(fault?: { readonly error: unknown }): void {
    this.#end = fault ?? {};
    this.#notify();
  }

  /** Whoever took from it is done, well or not. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#leave();
  }

  /** A wait that is no fault of the taker. */
  async waitFor<T>(what: Promise<T>): Promise<T> {
    clearTimeout(this.#timer);
    try {
      return await what;
    } finally {
      this.#expect();
    }
  }

  /** The bytes from an offset on. Opened again, it gives no more to who had it before. */
  readonly open: BlobSource = (offset) => {
    const turn = ++this.#turn;
    this.#expect();
    if (this.#shared && offset === this.#head) return this.#watched(this.#common(turn));
    this.#leave();
    return this.#watched(this.#source(offset));
  };

  #leave(): void {
    this.#shared = false;
    this.#queue = [];
    this.#notify();
  }

  async *#common(turn: number): AsyncGenerator<Uint8Array> {
    while (turn === this.#turn) {
      const chunk = this.#queue.shift();
      if (chunk !== undefined) {
        this.#queued -= chunk.byteLength;
        this.#head += chunk.byteLength;
        this.#notify();
        yield chunk;
      } else if (this.#end !== undefined) {
        if ('error' in this.#end) throw this.#end.error;
        return;
      } else if (!this.#shared) throw new ShoalError('SHOAL_ABORTED', 'a branch was left while it was read');
      else await this.#change();
    }
  }

  /** Waiting for the source is no fault of the taker; the time between, and after the end, is the taker's. */
  async *#watched(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    clearTimeout(this.#timer);
    try {
      for await (const chunk of chunks) {
        for (const piece of slices(chunk)) {
          this.#expect();
          yield piece;
          clearTimeout(this.#timer);
        }
      }
    } finally {
      this.#expect();
    }
  }

  /** Gives the branch up unless something happens in time. */
  #expect(): void {
    clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#leave();
      this.#stop.abort(new ShoalError('SHOAL_TIMEOUT', `it took nothing for ${this.#stallMs} ms`));
    }, this.#stallMs);
  }

  #change(): Promise<void> {
    return new Promise((done) => this.#waiting.push(done));
  }

  #notify(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

/** The chunks of a source, which every branch gets too. */
export async function* tee(
  chunks: AsyncIterable<Uint8Array>,
  branches: readonly Branch[],
): AsyncGenerator<Uint8Array> {
  let fault: { readonly error: unknown } | undefined = {
    error: new ShoalError('SHOAL_ABORTED', 'the pass over the source was given up'),
  };
  try {
    for await (const chunk of chunks) {
      for (const piece of slices(chunk)) {
        const taken = branches.map((branch) => branch.push(piece));
        yield piece;
        await Promise.all(taken);
      }
    }
    fault = undefined;
  } catch (error) {
    fault = { error };
    throw error;
  } finally {
    for (const branch of branches) branch.end(fault);
  }
}
