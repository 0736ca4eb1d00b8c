/**
 * Cancels the runs of a training when it stops. A step in flight may complete first: one that is cut off may be applied
 * on some ps only, and all tasks would have to go back to a checkpoint.
 */
import { setMaxListeners } from 'node:events';

/** How long a step may continue after a stop. */
const GRACE_MS = 5000;

export class StepEnding implements Disposable {
  readonly #cancelled = new AbortController();
  readonly #stop: AbortSignal | undefined;
  readonly #onStop = () => this.stop(this.#stop as AbortSignal);
  #timer: NodeJS.Timeout | undefined;
  #isFinished = false;
  /** Whether steps in flight may complete; a wait for other tasks, at the start or in a recovery, is cancelled at once. */
  mayFinish: () => boolean = () => false;

  constructor(stop: AbortSignal | undefined) {
    this.#stop = stop;
    // Every run and every part of a restore adds a listener.
    setMaxListeners(0, this.signal);
    if (stop?.aborted) this.#onStop();
    else stop?.addEventListener('abort', this.#onStop, { once: true });
  }

  /** Cancels runs and waits. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  /** Cancels everything at once. */
  cancel(reason: unknown): void {
    this.finished();
    this.#cancelled.abort(reason);
  }

  /** Cancels everything, but gives steps in flight the time to complete. */
  stop({ reason }: AbortSignal): void {
    if (this.#isFinished) return;
    const cancel = () => this.cancel(reason);
    if (!this.mayFinish()) cancel();
    else this.#timer ??= setTimeout(cancel, GRACE_MS).unref();
  }

  /** No step is in flight any more: a stop does not cancel what follows, such as the last save. */
  finished(): void {
    this.#isFinished = true;
    clearTimeout(this.#timer);
    this.#stop?.removeEventListener('abort', this.#onStop);
  }

  [Symbol.dispose](): void {
    this.finished();
  }
}
