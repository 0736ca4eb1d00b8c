/** Waits with a deadline; errors name the operation. */
import { ShoalError } from '../errors/errors.js';

export interface WaitOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** The error for an aborted signal, with its reason as the cause. */
export function abortError(what: string, signal: AbortSignal): ShoalError {
  return new ShoalError('SHOAL_ABORTED', `${what} was aborted`, { cause: signal.reason });
}

export function throwIfAborted(what: string, signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortError(what, signal);
}

/**
 * Settles like `promise`, or rejects when the deadline passes or the signal fires. This does not stop the underlying
 * work; the caller cancels or abandons it.
 */
export function withDeadline<T>(promise: Promise<T>, what: string, options: WaitOptions): Promise<T> {
  const { signal, timeoutMs } = options;
  if (signal === undefined && timeoutMs === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const settle = <A>(then: (value: A) => void) => {
      return (value: A) => {
        if (timer !== undefined) clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        then(value);
      };
    };
    const onAbort = () => settle(reject)(abortError(what, signal as AbortSignal));
    if (signal?.aborted) {
      promise.catch(() => {});
      reject(abortError(what, signal));
      return;
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    if (timeoutMs !== undefined) {
      timer = setTimeout(
        () => settle(reject)(new ShoalError('SHOAL_TIMEOUT', `${what} timed out after ${timeoutMs} ms`)),
        timeoutMs,
      );
    }
    promise.then(settle(resolve), settle(reject));
  });
}

/** Resolves after `ms`; rejects when the signal fires. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortError('a wait', signal));
      return;
    }
    const onAbort = () => {
      clearTimeout(timer);
      reject(abortError('a wait', signal as AbortSignal));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
