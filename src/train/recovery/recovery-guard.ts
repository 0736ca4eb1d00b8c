/**
 * Keeps what needs a whole cluster, a save above all, apart from recoveries. When the cluster is lost such work is
 * given up, and a recovery waits until it has ended: a checkpoint of a state that is half restored can't come to be.
 */
import { setMaxListeners } from 'node:events';
import { withDeadline } from '../../async/deadline.js';
import { ShoalError } from '../../errors/errors.js';

/** How long work that was given up may take to end before a recovery goes on without it. */
const END_MS = 15_000;

export class RecoveryGuard {
  #lost: AbortController | undefined = stableController();
  readonly #running = new Set<Promise<unknown>>();

  /** Whether the cluster is whole, as far as known. */
  get isStable(): boolean {
    return this.#lost !== undefined;
  }

  /** Does work that the loss of the cluster gives up; refuses it while a recovery is under way. */
  during<T>(what: string, work: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const lost = this.#lost;
    if (!lost) {
      return Promise.reject(
        new ShoalError('SHOAL_TF_UNAVAILABLE', `${what} can not be while the cluster is being recovered`),
      );
    }
    const running = work(signal ? AbortSignal.any([signal, lost.signal]) : lost.signal);
    this.#running.add(running);
    const forget = () => void this.#running.delete(running);
    running.then(forget, forget);
    return running;
  }

  /** Gives up what runs, and resolves when it has ended. */
  async suspend(log?: (line: string) => void): Promise<void> {
    this.#lost?.abort('the cluster is being recovered');
    this.#lost = undefined;
    if (this.#running.size === 0) return;
    const ended = Promise.allSettled([...this.#running]);
    await withDeadline(ended, 'What was given up', { timeoutMs: END_MS }).catch((error: Error) =>
      log?.(`${error.message}; the recovery goes on without it`),
    );
  }

  /** The cluster is whole again. */
  resume(): void {
    this.#lost ??= stableController();
  }
}

function stableController(): AbortController {
  const controller = new AbortController();
  // A save or restore listens once for each of its many parts.
  setMaxListeners(0, controller.signal);
  return controller;
}
