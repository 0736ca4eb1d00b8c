/**
 * The queue of blocking native calls. They run on libuv's thread pool, which file system and DNS calls use too: the
 * queue admits fewer calls than there are threads, and keeps the rest in order of arrival.
 *
 * Calls may wait for each other: a full queue of a graph blocks the loops that fill it until a step drains it. So when
 * calls wait and none has returned for a while, they get extra threads, one after the other.
 *
 * An abandoned call that has not returned still holds its thread; if such calls hold all threads, further calls are
 * rejected instead of waiting forever.
 */
import { threadPool } from '../../base/async/thread-pool.js';
import { ShoalError } from '../../base/errors/errors.js';
import { C } from '../native/library/library.js';
import { exitImmediatelyWhen } from '../native/threads/exit.js';
import { type BlockingCall, ExtraThreads } from '../native/threads/extra-threads.js';

/** Starts a call; it calls `done` when the native call, made by `call`, has returned. */
export type StartCall = (done: () => void, call: BlockingCall) => void;

export interface NativeCallQueueOptions {
  /** The calls on threads of the pool; default: one less than it has. */
  readonly width?: number;
  /** The calls on extra threads; default: 256. */
  readonly extra?: number;
}

/** More than any program has loops; each is a thread of Node. */
const MAX_EXTRA = 256;
/** How long no call returns before a waiting one gets an extra thread. */
const STALL_MS = 10;

const onPool: BlockingCall = (name, args, done) => {
  const native = C()[name] as unknown as { async: (...args: unknown[]) => void };
  native.async(...args, done);
};

export class NativeCallQueue {
  readonly #width: number;
  readonly #maxExtra: number;
  readonly #waiting: ((call: BlockingCall, leave: () => void) => void)[] = [];
  readonly #threads = new ExtraThreads();
  #running = 0;
  #extra = 0;
  #ahead = 0;
  #abandoned = 0;
  #stall: NodeJS.Timeout | undefined;

  constructor(options: NativeCallQueueOptions = {}) {
    const { width = Math.max(1, threadPool().size - 1), extra = MAX_EXTRA } = options;
    this.#width = width;
    this.#maxExtra = extra;
  }

  /** The number of calls that may run at the same time. */
  get capacity(): number {
    return this.#width + this.#maxExtra;
  }

  /** The number of running calls. */
  get running(): number {
    return this.#running + this.#extra + this.#ahead;
  }

  /** The number of abandoned calls that still hold a thread. */
  get abandoned(): number {
    return this.#abandoned;
  }

  /** Calls `start` when a thread is available. */
  enter(start: StartCall): void {
    if (this.#abandoned >= this.capacity) {
      throw new ShoalError(
        'SHOAL_TF_UNAVAILABLE',
        `All ${this.capacity} threads for TensorFlow calls are held by calls that never returned`,
        { hint: 'The tasks they wait for are frozen or unreachable. Restart this process.' },
      );
    }
    this.#waiting.push((call, leave) => start(leave, call));
    this.#admit();
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#running < this.#width) this.#next(onPool);
    while (this.#waiting.length > 0 && this.#threads.hasIdle) this.#next(this.#threads.call);
    if (this.#waiting.length === 0 || this.#extra >= this.#maxExtra) return;
    this.#stall ??= setTimeout(() => {
      this.#stall = undefined;
      if (this.#waiting.length > 0) this.#next(this.#threads.call);
      this.#admit();
    }, STALL_MS);
  }

  #next(call: BlockingCall): void {
    const isExtra = call !== onPool;
    if (isExtra) this.#extra += 1;
    else this.#running += 1;
    this.#waiting.shift()?.(call, () => {
      if (isExtra) this.#extra -= 1;
      else this.#running -= 1;
      clearTimeout(this.#stall);
      this.#stall = undefined;
      this.#admit();
    });
  }

  /** Starts a call without queueing, because it unblocks other calls. */
  overtake(start: StartCall): void {
    this.#ahead += 1;
    start(() => {
      this.#ahead -= 1;
    }, onPool);
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
