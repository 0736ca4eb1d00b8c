/**
 * Separates work that needs a complete cluster, such as a save, from recoveries. A recovery aborts such work and waits
 * until it has ended, so no checkpoint of a partially restored state is saved.
 */

import { setMaxListeners } from 'node:events';
import { withDeadline } from '../../../base/async/deadline.js';
import { joinSignals } from '../../../base/async/joined-signal.js';
import { hintLineOf, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';

/** How long aborted work may take to end before the recovery continues without it. */
const END_MS = 15_000;

export class RecoveryGuard {
  #lost: AbortController | undefined = stableController();
  readonly #running = new Set<Promise<unknown>>();
  #suspensions = 0;

  /** How many recoveries have begun. */
  get suspensions(): number {
    return this.#suspensions;
  }

  /** Whether no recovery is in progress. */
  get isStable(): boolean {
    return this.#lost !== undefined;
  }

  /** Runs work that a recovery aborts; rejects while a recovery is in progress. */
  during<T>(what: string, work: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const lost = this.#lost;
    if (!lost) {
      return Promise.reject(
        new ShoalError(
          'SHOAL_TF_UNAVAILABLE',
          `${what} is not possible while the cluster is being recovered`,
        ),
      );
    }
    const joined = joinSignals(lost.signal, signal);
    const running = started(work, joined.signal);
    this.#running.add(running);
    const forget = () => {
      joined[Symbol.dispose]();
      this.#running.delete(running);
    };
    running.then(forget, forget);
    return running;
  }

  /** Aborts running work, and resolves when it has ended. */
  async suspend(log?: Log): Promise<void> {
    this.#suspensions += 1;
    this.#lost?.abort('the cluster is being recovered');
    this.#lost = undefined;
    if (this.#running.size === 0) return;
    const ended = Promise.allSettled([...this.#running]);
    await withDeadline(ended, 'Waiting for aborted work', { timeoutMs: END_MS }).catch((error: Error) =>
      log?.(`${error.message}; the recovery continues without it${hintLineOf(error)}`),
    );
  }

  /** The cluster is complete again. */
  resume(): void {
    this.#lost ??= stableController();
  }
}

function stableController(): AbortController {
  const controller = new AbortController();
  // Every part of a save or restore adds a listener.
  setMaxListeners(0, controller.signal);
  return controller;
}

/** An error that is thrown at once rejects, like a later one. */
async function started<T>(work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  return work(signal);
}
