/** One listener per signal for all runs that overlap: to add and remove a listener takes longer than a short run. */

type Call = (signal: AbortSignal) => void;

interface Group {
  readonly calls: Set<Call>;
  readonly end: () => void;
}

const groups = new WeakMap<AbortSignal, Group>();

/** Calls `call` once when the signal fires, unless the returned function was called before. */
export function onAborted(signal: AbortSignal, call: Call): () => void {
  const { calls, end } = groups.get(signal) ?? newGroup(signal);
  calls.add(call);
  return () => {
    // The next run may begin at once. Node keeps a combined signal alive while it has a listener.
    if (calls.delete(call) && calls.size === 0) setImmediate(end);
  };
}

function newGroup(signal: AbortSignal): Group {
  const calls = new Set<Call>();
  const fire = () => {
    const all = [...calls];
    calls.clear();
    for (const call of all) call(signal);
  };
  const end = () => {
    if (calls.size > 0 || groups.get(signal)?.calls !== calls) return;
    signal.removeEventListener('abort', fire);
    groups.delete(signal);
  };
  const group = { calls, end };
  groups.set(signal, group);
  signal.addEventListener('abort', fire, { once: true });
  return group;
}
