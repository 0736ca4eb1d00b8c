/**
 * One signal that fires with any of several, for the time of a call. `AbortSignal.any` is for signals that live equally
 * long: Node keeps what it adds to a source until the source is collected, so a call in every step would fill the memory.
 */
import { setMaxListeners } from 'node:events';
import { onAborted } from './on-aborted.js';

export interface JoinedSignal extends Disposable {
  readonly signal: AbortSignal;
}

/** The signal fires with any of the given ones until it is disposed of. */
export function joinSignals(
  first: AbortSignal,
  ...others: readonly (AbortSignal | undefined)[]
): JoinedSignal {
  const signals = [...new Set([first, ...others.filter((signal) => signal !== undefined)])];
  if (signals.length === 1) return { signal: first, [Symbol.dispose]: () => {} };
  const joined = new AbortController();
  setMaxListeners(0, joined.signal);
  const stops: (() => void)[] = [];
  for (const signal of signals) {
    if (signal.aborted) joined.abort(signal.reason);
    else stops.push(onAborted(signal, ({ reason }) => joined.abort(reason)));
  }
  const end = () => {
    for (const stop of stops.splice(0)) stop();
  };
  return { signal: joined.signal, [Symbol.dispose]: end };
}
