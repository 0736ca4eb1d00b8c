/**
 * Where an op is made: the graph, the name prefix, devices, control inputs, colocation. A scope is an
 * immutable value that lasts as long as the function given to it, across awaits too.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Graph } from './graph.js';
import type { Operation } from './operation.js';

/** What a device function is told of the op that is about to be made. */
export interface OpRequest {
  readonly type: string;
  readonly name: string;
  readonly attrs: Readonly<Record<string, unknown>>;
  /** What inner scopes have asked for already. */
  readonly device: string;
}

export type DeviceFunction = (op: OpRequest) => string | null | undefined;
export type DeviceScope = string | DeviceFunction;

export interface Scope {
  readonly graph: Graph;
  /** Ends with a slash, or is empty. */
  readonly prefix: string;
  /** From the outermost to the innermost. */
  readonly devices: readonly DeviceScope[];
  readonly controlInputs: readonly Operation[];
  readonly colocation: Operation | undefined;
  /** What other rooms hang on the scope, by their own symbol: variable scopes, for one. */
  readonly extras: Readonly<Record<symbol, unknown>>;
}

const storage = new AsyncLocalStorage<Scope>();

export function rootScope(graph: Graph): Scope {
  return { graph, prefix: '', devices: [], controlInputs: [], colocation: undefined, extras: {} };
}

export function activeScope(): Scope | undefined {
  return storage.getStore();
}

/** The scope for ops of this graph: the active one if it is of this graph, else the graph's root. */
export function scopeOf(graph: Graph): Scope {
  const active = storage.getStore();
  return active?.graph === graph ? active : rootScope(graph);
}

/** Runs `body` with something more hung on the current scope of the graph. */
export function withExtra<T>(graph: Graph, key: symbol, value: unknown, body: () => T): T {
  const scope = scopeOf(graph);
  return storage.run({ ...scope, extras: { ...scope.extras, [key]: value } }, body);
}

export function inScope<T>(scope: Scope, body: () => T): T {
  return storage.run(scope, body);
}
