/**
 * The context in which ops are created: graph, name prefix, devices, control inputs, colocation. A scope is an
 * immutable value that applies while its function runs, and until the promise that it returns is settled.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { DeviceScope } from './device.js';
import type { Operation, OwningGraph } from './operation.js';

export interface Scope {
  readonly graph: OwningGraph;
  /** Ends with a slash, or is empty. */
  readonly prefix: string;
  /** Outermost first. */
  readonly devices: readonly DeviceScope[];
  readonly controlInputs: readonly Operation[];
  readonly colocation: Operation | undefined;
  /** Extensions by other modules, keyed by symbol; for example variable scopes. */
  readonly extras: Readonly<Record<symbol, unknown>>;
}

const storage = new AsyncLocalStorage<Scope>();
/** How many scopes are entered and not left. */
let entered = 0;

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { then?: unknown } | undefined | null)?.then === 'function';

/**
 * In Node 20 a storage that is in use makes every promise and callback of the process slower, about 7 % of a training
 * step, so it is disabled whenever no scope is left.
 */
function enter<T>(scope: Scope, body: () => T): T {
  const leave = () => {
    entered -= 1;
    if (entered === 0) storage.disable();
  };
  entered += 1;
  let result: T;
  try {
    result = storage.run(scope, body);
  } catch (error) {
    leave();
    throw error;
  }
  if (isThenable(result)) result.then(leave, leave);
  else leave();
  return result;
}

export function rootScope(graph: OwningGraph): Scope {
  return { graph, prefix: '', devices: [], controlInputs: [], colocation: undefined, extras: {} };
}

export function activeScope(): Scope | undefined {
  return storage.getStore();
}

/** The scope for ops of this graph: the active one if it belongs to this graph, else the root scope. */
export function scopeOf(graph: OwningGraph): Scope {
  const active = storage.getStore();
  return active?.graph === graph ? active : rootScope(graph);
}

/** Runs `body` with an extension added to the current scope of the graph. */
export function withExtra<T>(graph: OwningGraph, key: symbol, value: unknown, body: () => T): T {
  const scope = scopeOf(graph);
  return enter({ ...scope, extras: { ...scope.extras, [key]: value } }, body);
}

export function inScope<T>(scope: Scope, body: () => T): T {
  return enter(scope, body);
}
