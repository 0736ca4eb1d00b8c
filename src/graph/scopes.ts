/** Scopes on the current graph. */
import { currentGraph } from './graph.js';
import type { Operation, Output } from './operation.js';
import type { DeviceScope } from './scope.js';

export const nameScope = <T>(name: string, body: (prefix: string) => T): T =>
  currentGraph().nameScope(name, body);

export const device = <T>(where: DeviceScope | null, body: () => T): T => currentGraph().device(where, body);

export const controlDependencies = <T>(ops: readonly (Operation | Output)[] | null, body: () => T): T =>
  currentGraph().controlDependencies(ops, body);

export const colocateWith = <T>(op: Operation | Output, body: () => T): T =>
  currentGraph().colocateWith(op, body);
