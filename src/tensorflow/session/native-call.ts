/** Blocking native calls on a thread of the pool, with a deadline and a signal. */
import { abortError, type WaitOptions } from '../../base/async/deadline.js';
import { invalid, messageOf, ShoalError } from '../../base/errors/errors.js';
import type { BlockingCall } from '../native/threads/extra-threads.js';
import { nativeCallQueue, type StartCall } from './native-call-queue.js';

/** A longer timer would fire immediately. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** `value` is called if the caller still waits; otherwise `discard` frees the result. */
export type Done = {
  (error: Error): void;
  (error: null, value: () => unknown, discard?: () => void): void;
};

export interface NativeCall {
  /** Makes the native call by `call`; calls `done` when it has returned. */
  readonly start: (done: Done, call: BlockingCall) => void;
  /** Frees prepared resources if the call is abandoned before it starts. */
  readonly drop?: () => void;
  /** Bypasses the queue, for calls that unblock others. */
  readonly ahead?: boolean;
}

export function checkTimeout(timeoutMs: number | undefined): void {
  if (timeoutMs !== undefined && !(timeoutMs > 0))
    throw invalid(`timeoutMs must be above 0; got ${timeoutMs}`);
}

/** Settles when the call returns, or earlier by deadline or signal; the call is then abandoned. */
export function nativeCall<T>(what: string, wait: WaitOptions, call: NativeCall): Promise<T> {
  const { timeoutMs, signal } = wait;
  return new Promise<T>((resolve, reject) => {
    if (signal?.aborted) {
      call.drop?.();
      reject(abortError(what, signal));
      return;
    }
    const queue = nativeCallQueue();
    let state: 'waiting' | 'running' | 'given-up' | 'done' = 'waiting';
    let returned: (() => void) | undefined;
    const giveUp = (error: ShoalError) => {
      if (state === 'running') returned = queue.abandon();
      else call.drop?.();
      state = 'given-up';
      stopWaiting();
      reject(error);
    };
    const onAbort = () => giveUp(abortError(what, signal as AbortSignal));
    const stopWaiting = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    const timer = startTimer(timeoutMs, (ms) => giveUp(deadlineError(what, ms)));
    const launch: StartCall = (leave, onThread) => {
      if (state === 'given-up') {
        leave();
        return;
      }
      state = 'running';
      const done = (error: Error | null, value?: () => unknown, discard?: () => void) => {
        leave();
        if (state === 'given-up') {
          returned?.();
          discard?.();
          return;
        }
        state = 'done';
        stopWaiting();
        if (error) reject(error);
        else settle(value, resolve as (value: unknown) => void, reject);
      };
      try {
        call.start(done as Done, onThread);
      } catch (error) {
        done(asError(error));
      }
    };
    try {
      if (call.ahead) queue.overtake(launch);
      else queue.enter(launch);
    } catch (error) {
      call.drop?.();
      stopWaiting();
      reject(error);
    }
  });
}

function startTimer(ms: number | undefined, expire: (ms: number) => void): NodeJS.Timeout | undefined {
  return ms === undefined || ms > LONGEST_TIMER_MS ? undefined : setTimeout(() => expire(ms), ms);
}

function settle(
  value: (() => unknown) | undefined,
  resolve: (value: unknown) => void,
  reject: (error: unknown) => void,
): void {
  try {
    resolve(value?.());
  } catch (error) {
    reject(error);
  }
}

export function deadlineError(what: string, timeoutMs: number): ShoalError {
  return new ShoalError(
    'SHOAL_TF_DEADLINE_EXCEEDED',
    `${what} timed out after ${timeoutMs} ms and was abandoned`,
    { hint: 'A task may be frozen or unreachable.' },
  );
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(messageOf(error)));
