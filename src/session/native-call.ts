/** Native calls that block, made on a thread of the pool, each with a deadline and a signal. */
import { abortError, type WaitOptions } from '../async/deadline.js';
import { invalid, messageOf, ShoalError } from '../errors/errors.js';
import { nativeLane } from './native-call-queue.js';

/** A longer timer would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** `value` is asked for only when the caller still waits; `discard` frees it when nobody does. */
export type Done = {
  (error: Error): void;
  (error: null, value: () => unknown, discard?: () => void): void;
};

export interface NativeCall {
  /** Makes the call; `done` is for when it has returned. */
  readonly start: (done: Done) => void;
  /** Frees what was prepared when the call is given up before its start. */
  readonly drop?: () => void;
  /** Does not wait for a place among the other calls: for what ends them. */
  readonly ahead?: boolean;
}

export function checkTimeout(timeoutMs: number | undefined): void {
  if (timeoutMs !== undefined && !(timeoutMs > 0))
    throw invalid(`timeoutMs must be above 0, it is ${timeoutMs}`);
}

/** Settles when the call returns, or earlier by its deadline or signal: the call is then left to itself. */
export function nativeCall<T>(what: string, wait: WaitOptions, call: NativeCall): Promise<T> {
  const { timeoutMs, signal } = wait;
  return new Promise<T>((resolve, reject) => {
    if (signal?.aborted) {
      call.drop?.();
      reject(abortError(what, signal));
      return;
    }
    const lane = nativeLane();
    let state: 'waiting' | 'running' | 'given-up' | 'done' = 'waiting';
    let timer: NodeJS.Timeout | undefined;
    let returned: (() => void) | undefined;
    const giveUp = (error: ShoalError) => {
      if (state === 'running') returned = lane.abandon();
      else call.drop?.();
      state = 'given-up';
      stopWaiting();
      reject(error);
    };
    const onAbort = () => giveUp(abortError(what, signal as AbortSignal));
    const stopWaiting = () => {
      if (timer !== undefined) clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    if (timeoutMs !== undefined && timeoutMs <= LONGEST_TIMER_MS) {
      timer = setTimeout(() => giveUp(deadlineError(what, timeoutMs)), timeoutMs);
    }
    const launch = (leave: () => void) => {
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
        call.start(done as Done);
      } catch (error) {
        done(asError(error));
      }
    };
    try {
      if (call.ahead) lane.overtake(launch);
      else lane.enter(launch);
    } catch (error) {
      call.drop?.();
      stopWaiting();
      reject(error);
    }
  });
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

function deadlineError(what: string, timeoutMs: number): ShoalError {
  return new ShoalError(
    'SHOAL_TF_DEADLINE_EXCEEDED',
    `${what} did not end within ${timeoutMs} ms and was given up`,
    { hint: 'A task may be frozen or cut off.' },
  );
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(messageOf(error)));
