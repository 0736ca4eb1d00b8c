/**
 * Selects the runs that execute on the calling thread. TensorFlow schedules every op on a thread pool; for a few
 * simple ops that costs more than the ops themselves. Runs that block, use a resource other than a variable, or call a
 * function stay on the pool: such kernels need its threads.
 */
import { isPure } from '../graph/op-def.js';
import type { Operation } from '../graph/operation.js';

const MOST_OPS = 16;

const VARIABLE_OPS: ReadonlySet<string> = new Set([
  'VarHandleOp',
  'ReadVariableOp',
  'AssignVariableOp',
  'AssignAddVariableOp',
  'AssignSubVariableOp',
]);

/** The number of ops that an op depends on, including itself; infinite if one needs the pool. It never changes. */
const needs = new WeakMap<Operation, number>();

export function isInline(ops: Iterable<Operation>): boolean {
  let count = 0;
  for (const op of ops) {
    count += needsOf(op);
    if (count > MOST_OPS) return false;
  }
  return count > 0;
}

function needsOf(op: Operation): number {
  const known = needs.get(op);
  if (known !== undefined) return known;
  // A session outlives its graph, which can then no longer be queried.
  const count = op.graph.disposed ? Number.POSITIVE_INFINITY : countNeeds(op);
  needs.set(op, count);
  return count;
}

function countNeeds(last: Operation): number {
  const seen = new Set([last]);
  for (const op of seen) {
    if (!VARIABLE_OPS.has(op.type) && !isPure(op)) return Number.POSITIVE_INFINITY;
    for (const input of op.inputs) seen.add(input.op);
    for (const input of op.controlInputs) seen.add(input);
    if (seen.size > MOST_OPS) return Number.POSITIVE_INFINITY;
  }
  return seen.size;
}
