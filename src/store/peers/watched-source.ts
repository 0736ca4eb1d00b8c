/**
 * A source whose taker is watched: one that takes nothing for too long is given up. Waiting for the source itself is no
 * fault of the taker; the time between, and after the end, is the taker's.
 */
import { ShoalError } from '../../errors/errors.js';
import { slices } from '../sources.js';
import type { BlobSource } from '../store.js';

export class WatchedSource {
  readonly #source: BlobSource;
  readonly #stallMs: number;
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(source: BlobSource, stallMs: number) {
    this.#source = source;
    this.#stallMs = stallMs;
    this.#expect();
  }

  /** Fires when the taker is given up. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** The taker is done, well or not. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
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

  readonly open: BlobSource = (offset) => this.#watched(offset);

  async *#watched(offset: number): AsyncGenerator<Uint8Array> {
    clearTimeout(this.#timer);
    try {
      for await (const chunk of this.#source(offset)) {
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

  /** Gives the taker up unless something happens in time. */
  #expect(): void {
    clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#stop.abort(new ShoalError('SHOAL_TIMEOUT', `it took nothing for ${this.#stallMs} ms`));
    }, this.#stallMs);
  }
}
