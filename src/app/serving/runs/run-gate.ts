/**
 * Bounds the runs of a server: so many at a time, so many waiting, in order of arrival. A request that would wait behind
 * a full queue is refused at once; one that is cancelled or late leaves the queue.
 */
import { abortError } from '../../../base/async/deadline.js';
import type { RequestLimits } from '../requests.js';
import { ServingError } from '../status.js';

export interface RunLimits {
  /** Runs at a time. */
  readonly maxRuns: number;
  /** Requests that wait for a run. */
  readonly maxQueued: number;
}

interface Waiting {
  readonly enter: () => void;
}

export class RunGate {
  readonly #limits: RunLimits;
  /** In order of arrival: a set keeps it, and a request leaves it in constant time. */
  readonly #waiting = new Set<Waiting>();
  #running = 0;

  constructor(limits: RunLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#waiting.size;
  }

  /** Runs `work` when a place is free. */
  async pass<T>(work: () => Promise<T>, call: RequestLimits): Promise<T> {
    if (this.#running < this.#limits.maxRuns) this.#running += 1;
    else await this.#wait(call);
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#running -= 1;
      return;
    }
    // The place of the run that ended is the next one's.
    this.#waiting.delete(next);
    next.enter();
  }

  #wait({ signal, deadline }: RequestLimits): Promise<void> {
    if (this.#waiting.size >= this.#limits.maxQueued) return Promise.reject(overloaded(this.#limits));
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const stop = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      };
      const leave = (error: Error) => {
        stop();
        this.#waiting.delete(waiting);
        reject(error);
      };
      const onAbort = () => leave(abortError('A request in the queue', signal as AbortSignal));
      const waiting: Waiting = {
        enter: () => {
          stop();
          resolve();
        },
      };
      if (signal?.aborted) {
        onAbort();
        return;
      }
      this.#waiting.add(waiting);
      signal?.addEventListener('abort', onAbort, { once: true });
      if (deadline !== undefined)
        timer = setTimeout(() => leave(lateError()), Math.max(0, deadline - performance.now()));
    });
  }
}

export const lateError = (): ServingError =>
  new ServingError('DEADLINE_EXCEEDED', 'The deadline of the request passed before its run began');

function overloaded({ maxRuns, maxQueued }: RunLimits): ServingError {
  return new ServingError(
    'RESOURCE_EXHAUSTED',
    `The server is overloaded: ${maxRuns} requests run and ${maxQueued} wait`,
    { hint: 'Send fewer requests at a time, or use more servers.' },
  );
}
