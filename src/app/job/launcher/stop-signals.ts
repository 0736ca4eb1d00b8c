/** Turns signals into two requests: the first asks for a graceful stop, the second for an immediate one. */
import { setMaxListeners } from 'node:events';

export interface StopSignals {
  readonly stop: AbortSignal;
  readonly kill: AbortSignal;
  /** Removes the signal handlers. */
  dispose(): void;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const PARENT_CHECK_MS = 250;

/**
 * npx runs a program in a shell and passes signals to that shell only, which ends and leaves the program behind. So the
 * end of the parent counts as SIGTERM there.
 */
function watchParent(onEnd: () => void): NodeJS.Timeout | undefined {
  if (process.env.npm_command !== 'exec') return undefined;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onEnd();
  }, PARENT_CHECK_MS);
  return timer.unref();
}

/** `alsoStop` asks for a graceful stop too; default: none. */
export function stopSignals(alsoStop?: AbortSignal): StopSignals {
  const stop = new AbortController();
  const kill = new AbortController();
  // Every pending operation of a task adds a listener.
  setMaxListeners(0, stop.signal, kill.signal);
  let count = 0;
  const handle = (name: NodeJS.Signals) => {
    count++;
    if (count === 1) stop.abort(name);
    else kill.abort(name);
  };
  for (const name of SIGNALS) process.on(name, handle);
  const parentWatch = watchParent(() => count === 0 && handle('SIGTERM'));
  const stopToo = () => stop.abort(alsoStop?.reason);
  if (alsoStop?.aborted) stopToo();
  alsoStop?.addEventListener('abort', stopToo, { once: true });
  return {
    stop: stop.signal,
    kill: kill.signal,
    dispose: () => {
      clearInterval(parentWatch);
      for (const name of SIGNALS) process.off(name, handle);
    },
  };
}
