/**
 * Stops several loops together, as TensorFlow's Coordinator does with threads. The first error that a loop reports
 * stops all loops, and `join` throws it. The end of the input is not an error.
 */

import { setMaxListeners } from 'node:events';
import { sleep } from '../../../base/async/deadline.js';
import {
  describeError,
  invalid,
  isShoalError,
  type ShoalCode,
  ShoalError,
} from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';

export interface CoordinatorOptions {
  /** Errors that end a loop gracefully; default: the end of the input. */
  readonly cleanStopCodes?: readonly ShoalCode[];
  /** Receives log lines; default: none. */
  readonly log?: Log;
}

export interface JoinTasksOptions {
  /** How long loops may take to end after a stop request; default: 120. */
  readonly stopGracePeriodSecs?: number;
  /** Whether loops still running after the grace period are only logged, not an error; default: false. */
  readonly ignoreLiveTasks?: boolean;
}

export interface LoopOptions {
  /** The time between two starts of the body; default: back to back. */
  readonly everySecs?: number;
  /** The name of the loop, for messages; default: `task` and a number. */
  readonly name?: string;
  /** A monotonic clock, in milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

const CLEAN: readonly ShoalCode[] = ['SHOAL_TF_OUT_OF_RANGE'];

/** Whether an error is the regular end of a loop. */
export const isCleanStop = (error: unknown, codes: readonly ShoalCode[] = CLEAN): boolean =>
  isShoalError(error) && codes.includes(error.code);

export class Coordinator {
  readonly #cleanStopCodes: readonly ShoalCode[];
  readonly #log: Log;
  readonly #tasks = new Map<Promise<unknown>, string>();
  #stop = stopController();
  #error: { readonly error: unknown } | undefined;
  #joined = false;

  constructor({ cleanStopCodes = CLEAN, log = () => {} }: CoordinatorOptions = {}) {
    this.#cleanStopCodes = cleanStopCodes;
    this.#log = log;
  }

  /** Aborts when a stop is requested; pass it to the waits and runs of loops. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get joined(): boolean {
    return this.#joined;
  }

  shouldStop(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Stops all loops. `join` throws the first error; after `join`, an error is thrown here. */
  requestStop(error?: unknown): void {
    const isError = error !== undefined && error !== null && !isCleanStop(error, this.#cleanStopCodes);
    if (this.#joined && isError) throw error;
    if (this.shouldStop()) return;
    if (isError) {
      this.#error = { error };
      this.#log(`a stop was requested: ${describeError(error)}`, 'error');
    }
    this.#stop.abort(error ?? 'a stop was requested');
  }

  /** Resets the coordinator to its state before any stop. */
  clearStop(): void {
    this.#joined = false;
    this.#error = undefined;
    if (this.shouldStop()) this.#stop = stopController();
  }

  /** Resolves with true when a stop is requested, with false after the timeout. */
  waitForStop(timeoutMs?: number): Promise<boolean> {
    const { signal } = this.#stop;
    if (signal.aborted) return Promise.resolve(true);
    if (timeoutMs !== undefined)
      return sleep(Math.max(0, timeoutMs), signal).then(
        () => false,
        () => true,
      );
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve(true), { once: true }));
  }

  /** Adds a loop that `join` waits for. If it fails, all loops stop. */
  register(task: Promise<unknown>, name = `task ${this.#tasks.size + 1}`): void {
    const watched = task.catch((error: unknown) => this.#stopUnlessJoined(error));
    this.#tasks.set(watched, name);
    void watched.finally(() => this.#tasks.delete(watched));
  }

  /** After `join` has returned, a failure can only be logged. */
  #stopUnlessJoined(error: unknown): void {
    if (this.#joined) this.#log(`a loop failed after the end: ${describeError(error)}`);
    else this.requestStop(error);
  }

  /** Runs `body`; an error that it throws stops all loops. */
  async stopOnException<T>(body: () => T | Promise<T>): Promise<T | undefined> {
    try {
      return await body();
    } catch (error) {
      this.requestStop(error);
      return undefined;
    }
  }

  /** Registers a loop that runs `body` until a stop, periodically or back to back. */
  loop(body: () => unknown, { everySecs, name, now = () => performance.now() }: LoopOptions = {}): void {
    if (everySecs !== undefined && !(everySecs >= 0))
      throw invalid(`everySecs must be at least 0; it is ${everySecs}`);
    const run = async () => {
      let next = now();
      while (!this.shouldStop()) {
        if (everySecs !== undefined) {
          if (await this.waitForStop(next - now())) return;
          next = Math.max(next + everySecs * 1000, now());
        }
        await body();
        // A body that never waits would starve everything else, including a stop.
        if (everySecs === undefined) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    this.register(run(), name);
  }

  /** Waits until all loops have ended, or a stop was requested and the grace period is over. Throws the first error. */
  async join(tasks: readonly Promise<unknown>[] = [], options: JoinTasksOptions = {}): Promise<void> {
    const { stopGracePeriodSecs = 120, ignoreLiveTasks = false } = options;
    for (const task of tasks) this.register(task);
    const all = Promise.all(this.#tasks.keys());
    await Promise.race([all, this.waitForStop()]);
    await waitAtMost(all, stopGracePeriodSecs * 1000);
    const stragglers = [...this.#tasks.values()];
    this.#joined = true;
    this.#tasks.clear();
    this.raiseRequestedException();
    if (stragglers.length === 0) return;
    const still = `Stopped with loops still running: ${stragglers.join(', ')}`;
    if (!ignoreLiveTasks) {
      throw new ShoalError('SHOAL_TIMEOUT', still, {
        hint: `They did not end within ${stopGracePeriodSecs} s. Let each loop check shouldStop(), or pass the coordinator's signal to its waits.`,
      });
    }
    this.#log(still);
  }

  /** Throws the first error, if any. */
  raiseRequestedException(): void {
    if (this.#error) throw this.#error.error;
  }
}

/** A controller without a limit of listeners: every loop may listen. */
function stopController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

/** Leaves no timer behind. */
async function waitAtMost(promise: Promise<unknown>, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
