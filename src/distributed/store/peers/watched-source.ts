/**
 * A source that aborts a stalled reader: one that requests no chunk for too long. Time spent waiting for the source
 * itself does not count; the time between chunks and after the end does.
 */
import { ShoalError } from '../../../base/errors/errors.js';
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

  /** Fires when the reader has stalled. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** The reader has ended, successfully or not. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** Waits without counting the time as a stall of the reader. */
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

  /** Aborts the reader unless it makes progress in time. */
  #expect(): void {
    clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#stop.abort(
        new ShoalError('SHOAL_TIMEOUT', `the receiver made no progress for ${this.#stallMs} ms`),
      );
    }, this.#stallMs);
  }
}
