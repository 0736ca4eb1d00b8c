/**
 * Stops several loops together, as TensorFlow's Coordinator does threads: the first error that one of them reports
 * stops all, is kept, and is thrown by `join`. That the input is at its end is no error.
 */
import { setMaxListeners } from 'node:events';
import { sleep } from '../../async/deadline.js';
import { invalid, isShoalError, messageOf, type ShoalCode, ShoalError } from '../../errors/errors.js';

export interface CoordinatorOptions {
  /** Errors that end a loop in good order. */
  readonly cleanStopCodes?: readonly ShoalCode[];
  readonly log?: (line: string) => void;
}

export interface JoinTasksOptions {
  /** How long loops get to end after a stop was requested. */
  readonly stopGracePeriodSecs?: number;
  /** Whether loops that go on after that are only spoken of. */
  readonly ignoreLiveTasks?: boolean;
}

/** A loop, as `loop` starts it. */
export interface LoopOptions {
  /** The time between two beginnings; none: one follows the other at once. */
  readonly everySecs?: number;
  readonly name?: string;
  /** Milliseconds that only go forward. */
  readonly now?: () => number;
}

const CLEAN: readonly ShoalCode[] = ['SHOAL_TF_OUT_OF_RANGE'];

/** Whether an error says that a loop has come to its natural end. */
export const isCleanStop = (error: unknown, codes: readonly ShoalCode[] = CLEAN): boolean =>
  isShoalError(error) && codes.includes(error.code);

export class Coordinator {
  readonly #cleanStopCodes: readonly ShoalCode[];
  readonly #log: (line: string) => void;
  readonly #tasks = new Map<Promise<unknown>, string>();
  #stop = stopController();
  #error: { readonly error: unknown } | undefined;
  #joined = false;

  constructor({ cleanStopCodes = CLEAN, log = () => {} }: CoordinatorOptions = {}) {
    this.#cleanStopCodes = cleanStopCodes;
    this.#log = log;
  }

  /** Fires when a stop is requested: for waits and runs of the loops. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get joined(): boolean {
    return this.#joined;
  }

  shouldStop(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Stops all. The first error is kept for `join`; one that comes after it was called is thrown here. */
  requestStop(error?: unknown): void {
    const isError = error !== undefined && error !== null && !isCleanStop(error, this.#cleanStopCodes);
    if (this.#joined && isError) throw error;
    if (this.shouldStop()) return;
    if (isError) {
      this.#error = { error };
      this.#log(`a stop was requested: ${messageOf(error)}`);
    }
    this.#stop.abort(error ?? 'a stop was requested');
  }

  /** Makes the coordinator as it was before any stop. */
  clearStop(): void {
    this.#joined = false;
    this.#error = undefined;
    if (this.shouldStop()) this.#stop = stopController();
  }

  /** Resolves when a stop is requested (true), or when the time is over (false). */
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

  /** Adds a loop that `join` waits for. If it fails, all stop. */
  register(task: Promise<unknown>, name = `task ${this.#tasks.size + 1}`): void {
    const watched = task.catch((error: unknown) => this.#stopUnlessJoined(error));
    this.#tasks.set(watched, name);
    // What has ended is not waited for, and need not be remembered.
    void watched.finally(() => this.#tasks.delete(watched));
  }

  /** Who joined has been told the outcome: a loop that fails later can only be spoken of. */
  #stopUnlessJoined(error: unknown): void {
    if (this.#joined) this.#log(`a loop failed after the end: ${messageOf(error)}`);
    else this.requestStop(error);
  }

  /** Runs `body`; what it throws is reported here and stops all. */
  async stopOnException<T>(body: () => T | Promise<T>): Promise<T | undefined> {
    try {
      return await body();
    } catch (error) {
      this.requestStop(error);
      return undefined;
    }
  }

  /** Runs `body` again and again, by the clock or back to back, until a stop. The loop is registered. */
  loop(body: () => unknown, { everySecs, name, now = () => performance.now() }: LoopOptions = {}): void {
    if (everySecs !== undefined && !(everySecs >= 0)) throw invalid(`A loop every ${everySecs} s can not be`);
    const run = async () => {
      let next = now();
      while (!this.shouldStop()) {
        if (everySecs !== undefined) {
          if (await this.waitForStop(next - now())) return;
          next = Math.max(next + everySecs * 1000, now());
        }
        await body();
        // A body that never waits would keep everything else from running, a stop included.
        if (everySecs === undefined) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    this.register(run(), name);
  }

  /**
   * Waits until all loops have ended, or a stop was requested and the grace period is over; throws the error that
   * was kept.
   */
  async join(tasks: readonly Promise<unknown>[] = [], options: JoinTasksOptions = {}): Promise<void> {
    const { stopGracePeriodSecs = 120, ignoreLiveTasks = false } = options;
    for (const task of tasks) this.register(task);
    const all = Promise.all(this.#tasks.keys());
    await Promise.race([all, this.waitForStop()]);
    await withoutTimer(all, stopGracePeriodSecs * 1000);
    const stragglers = [...this.#tasks.values()];
    this.#joined = true;
    this.#tasks.clear();
    this.raiseRequestedException();
    if (stragglers.length === 0) return;
    const still = `Stopped with loops still running: ${stragglers.join(', ')}`;
    if (!ignoreLiveTasks) {
      throw new ShoalError('SHOAL_TIMEOUT', still, {
        hint: `They did not end within ${stopGracePeriodSecs} s: a loop looks at shouldStop(), or waits with the coordinator's signal.`,
      });
    }
    this.#log(still);
  }

  /** Throws the error that was kept, if any. */
  raiseRequestedException(): void {
    if (this.#error) throw this.#error.error;
  }
}

/** Every loop may listen to it. */
function stopController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

/** Waits for the promise, at most so long, and leaves no timer behind. */
async function withoutTimer(promise: Promise<unknown>, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
