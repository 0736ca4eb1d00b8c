/**
 * Selects the runs that execute on the calling thread. TensorFlow schedules every op on a thread pool; for a few
 * simple ops that costs more than the ops themselves. Runs that block, use a resource other than a variable, or call a
 * function stay on the pool: such kernels need its threads.
 */
import { isPure } from '../graph/op-def.js';
import type { Operation } from '../graph/operation.js';

const MOST_OPS = 16;

/**
 * Which threads of this process may execute the ops of a run themselves: all of them, those of the pool, or none but
 * TensorFlow's own.
 */
export type Inline = 'any' | 'pool' | 'none';

/**
 * Ops for which oneDNN generates matrix products. That code uses the stack pointer for data, so a signal that arrives
 * meanwhile overwrites the heap. Signals go to the main thread: these ops never run on it.
 */
const GENERATES_CODE = /MatMul|Conv|Einsum|LSTM|GRU|Rnn|RNN|Gemm/;

export const toleratesSignals = (op: Operation): boolean => !GENERATES_CODE.test(op.type);

const VARIABLE_OPS: ReadonlySet<string> = new Set([
  'VarHandleOp',
  'ReadVariableOp',
  'AssignVariableOp',
  'AssignAddVariableOp',
  'AssignSubVariableOp',
]);

interface Needs {
  /** The number of ops that an op depends on, including itself; infinite if one needs TensorFlow's threads. */
  readonly count: number;
  readonly toleratesSignals: boolean;
}

const NOT_INLINE: Needs = { count: Number.POSITIVE_INFINITY, toleratesSignals: false };

/** They never change. */
const needs = new WeakMap<Operation, Needs>();

export function inlineOf(ops: Iterable<Operation>): Inline {
  let count = 0;
  let isAny = true;
  for (const op of ops) {
    const one = needsOf(op);
    count += one.count;
    isAny &&= one.toleratesSignals;
    if (count > MOST_OPS) return 'none';
  }
  if (count === 0) return 'none';
  return isAny ? 'any' : 'pool';
}

function needsOf(op: Operation): Needs {
  const known = needs.get(op);
  if (known !== undefined) return known;
  // A session outlives its graph, which can then no longer be queried.
  const found = op.graph.disposed ? NOT_INLINE : findNeeds(op);
  needs.set(op, found);
  return found;
}

function findNeeds(last: Operation): Needs {
  const seen = new Set([last]);
  for (const op of seen) {
    if (!VARIABLE_OPS.has(op.type) && !isPure(op)) return NOT_INLINE;
    for (const input of op.inputs) seen.add(input.op);
    for (const input of op.controlInputs) seen.add(input);
    if (seen.size > MOST_OPS) return NOT_INLINE;
  }
  return { count: seen.size, toleratesSignals: [...seen].every(toleratesSignals) };
}
