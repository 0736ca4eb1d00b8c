/**
 * The queue of blocking native calls. They run on libuv's thread pool, which file system and DNS calls use too: the
 * queue admits fewer calls than there are threads, and keeps the rest in order of arrival. An abandoned call that has
 * not returned still holds its thread; if such calls hold all threads, further calls are rejected instead of waiting
 * forever.
 */
import { threadPool } from '../async/thread-pool.js';
import { ShoalError } from '../errors/errors.js';
import { exitImmediatelyWhen } from '../native/exit.js';

export class NativeCallQueue {
  readonly #width: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #ahead = 0;
  #abandoned = 0;

  constructor(width = Math.max(1, threadPool().size - 1)) {
    this.#width = width;
  }

  /** The number of running calls. */
  get running(): number {
    return this.#running + this.#ahead;
  }

  /** The number of abandoned calls that still hold a thread. */
  get abandoned(): number {
    return this.#abandoned;
  }

  /** Calls `start` when a thread is available; `start` calls `done` when the native call has returned. */
  enter(start: (done: () => void) => void): void {
    if (this.#abandoned >= this.#width) {
      throw new ShoalError(
        'SHOAL_TF_UNAVAILABLE',
        `All ${this.#width} threads for TensorFlow calls are held by calls that never returned`,
        { hint: 'The tasks they wait for are frozen or unreachable. Restart this process.' },
      );
    }
    const go = () => {
      this.#running += 1;
      start(() => {
        this.#running -= 1;
        this.#waiting.shift()?.();
      });
    };
    if (this.#running < this.#width) go();
    else this.#waiting.push(go);
  }

  /** Starts a call without queueing, because it unblocks other calls. */
  overtake(start: (done: () => void) => void): void {
    this.#ahead += 1;
    start(() => {
      this.#ahead -= 1;
    });
  }

  /** Counts an abandoned call; call the returned function when the native call returns. */
  abandon(): () => void {
    this.#abandoned += 1;
    return () => {
      this.#abandoned -= 1;
    };
  }
}

let shared: NativeCallQueue | undefined;

/** The queue of this process: there is one thread pool, so there is one queue. */
export function nativeCallQueue(): NativeCallQueue {
  if (!shared) {
    const queue = new NativeCallQueue();
    shared = queue;
    exitImmediatelyWhen(() => queue.running > 0);
  }
  return shared;
}
