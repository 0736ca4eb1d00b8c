/** Scopes and collections of the current graph. */

import type { DeviceScope } from './device.js';
import { currentGraph } from './graph.js';
import type { Operation, Output } from './operation.js';

export const nameScope = <T>(name: string, body: (prefix: string) => T): T =>
  currentGraph().nameScope(name, body);

export const device = <T>(where: DeviceScope | null, body: () => T): T => currentGraph().device(where, body);

export const controlDependencies = <T>(ops: readonly (Operation | Output)[] | null, body: () => T): T =>
  currentGraph().controlDependencies(ops, body);

export const colocateWith = <T>(op: Operation | Output, body: () => T): T =>
  currentGraph().colocateWith(op, body);

/** Adds a value to a collection of the graph, such as those of `tf.GraphKeys`. */
export const addToCollection = (name: string, value: unknown): void =>
  currentGraph().addToCollection(name, value);

export function addToCollections(names: readonly string[] | string, value: unknown): void {
  for (const name of new Set([names].flat())) addToCollection(name, value);
}

/** The values of a collection; with a scope only those whose name begins with it, which may be a regular expression. */
export function getCollection<T = unknown>(name: string, scope?: string | null): T[] {
  const items = currentGraph().getCollection<T>(name);
  if (scope === undefined || scope === null) return items;
  const pattern = new RegExp(`^(?:${scope})`);
  return items.filter((item) => pattern.test((item as { readonly name?: string }).name ?? ''));
}
