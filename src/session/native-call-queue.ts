/**
 * The way from JavaScript to native calls that block. They run on the threads of libuv's pool, which
 * the file system and name look-ups use too: a lane lets in fewer calls than there are threads and keeps
 * the rest in order of arrival. A call that was given up but has not returned still holds its thread; when
 * such calls hold all of them, further ones are refused rather than left to wait for ever.
 */
import { threadPool } from '../async/thread-pool.js';
import { ShoalError } from '../errors/errors.js';
import { endAtOnce } from '../native/exit.js';

export class NativeCallQueue {
  readonly #width: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #ahead = 0;
  #abandoned = 0;

  constructor(width = Math.max(1, threadPool().size - 1)) {
    this.#width = width;
  }

  /** How many calls are on a thread. */
  get running(): number {
    return this.#running + this.#ahead;
  }

  /** How many calls were given up and still hold a thread. */
  get abandoned(): number {
    return this.#abandoned;
  }

  /** Calls `start` when there is a thread for it; `start` calls `done` when the native call has returned. */
  enter(start: (done: () => void) => void): void {
    if (this.#abandoned >= this.#width) {
      throw new ShoalError(
        'SHOAL_TF_UNAVAILABLE',
        `All ${this.#width} threads for TensorFlow calls are held by calls that never returned`,
        { hint: 'The tasks that they wait for are frozen or cut off. Restart this process.' },
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

  /** The same for a call that waits for no place, because it ends others. */
  overtake(start: (done: () => void) => void): void {
    this.#ahead += 1;
    start(() => {
      this.#ahead -= 1;
    });
  }

  /** Counts a call whose caller has given up; the function returned counts its end. */
  abandon(): () => void {
    this.#abandoned += 1;
    return () => {
      this.#abandoned -= 1;
    };
  }
}

let shared: NativeCallQueue | undefined;

/** The lane of this process: the thread pool is one, so the lane is. */
export function nativeLane(): NativeCallQueue {
  if (!shared) {
    const lane = new NativeCallQueue();
    shared = lane;
    endAtOnce(() => lane.running > 0);
  }
  return shared;
}
