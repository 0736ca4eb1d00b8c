/** The properties of ops that decide where a run may be divided. */
import { isPure, opDef } from '../../graph/op-def.js';
import type { Operation, Output } from '../../graph/operation.js';
import { sizeOf } from '../../tensor/shape.js';

const isRefArg = ({ isRef }: { readonly isRef: boolean }): boolean => isRef;
const defOf = (op: Operation) => opDef(op.graph.pointer, op.type);

/** Ops of TensorFlow 1's loops and conditionals: dead tensors and loop frames exist only inside one stage. */
const STARTS_REGION: ReadonlySet<string> = new Set(['Switch', 'RefSwitch', 'Enter', 'RefEnter']);
const ENDS_REGION: ReadonlySet<string> = new Set(['Merge', 'RefMerge', 'Exit', 'RefExit']);

export const startsRegion = (op: Operation): boolean => STARTS_REGION.has(op.type);
export const endsRegion = (op: Operation): boolean => ENDS_REGION.has(op.type);
/** The edge from here closes the cycle of a loop. */
export const closesLoop = (op: Operation): boolean => /^(Ref)?NextIteration$/.test(op.type);

/** Ops that wait for other runs: a queue's elements or its capacity, or the gradients of other workers. */
const WAITS =
  /^(Queue(Dequeue|Enqueue)\w*|(Sparse|Resource)?AccumulatorTakeGradient|BarrierTakeMany|ReaderRead\w*)$/;

export const waits = (op: Operation): boolean => WAITS.test(op.type);

/** Those that take effect completely or not at all; an op on many elements keeps some of them when it is cancelled. */
const ATOMIC = /^(Queue(Dequeue|Enqueue)(V2)?|(Sparse|Resource)?AccumulatorTakeGradient)$/;

export const isAtomic = (op: Operation): boolean => ATOMIC.test(op.type);

const UPDATES = /^Resource(Scatter|SparseApply|Apply)/;
/** From this many elements on, an update takes longer than a message. */
const LONG_ELEMENTS = 1 << 16;

/** Updates of many values, or of a number of rows that is not known: worth a stage beside those of other tasks. */
export function isLongUpdate(op: Operation): boolean {
  if (!UPDATES.test(op.type)) return false;
  return op.inputs.some(({ dtype, shape }) => {
    if (dtype === 'resource') return false;
    return shape === null || shape.includes(null) || sizeOf(shape as number[]) >= LONG_ELEMENTS;
  });
}

/**
 * Creates, or finds by name, an object that the session holds. Every stage gets a copy of the op instead of its
 * output: handles are valid in one session only.
 */
export function isHandle(op: Operation): boolean {
  const { isStateful, inputArg, outputArg, attr } = defOf(op);
  return (
    isStateful &&
    inputArg.length === 0 &&
    outputArg.length > 0 &&
    outputArg.every((arg) => arg.isRef || arg.type === DT_RESOURCE) &&
    attr.some(({ name }) => name === 'shared_name')
  );
}

const DT_RESOURCE = 20;

/** Whether an edge carries a reference into a session, so that both ends must be on the same task. */
export function isHandleEdge(input: Output, consumer: Operation): boolean {
  if (input.dtype === 'resource') return true;
  return defOf(input.op).outputArg.some(isRefArg) && defOf(consumer).inputArg.some(isRefArg);
}

/** Up to this many elements a computed value may be computed again instead of sent. */
const MOST_ELEMENTS = 4096;

/** Ops without state that depend on the task: they are fed, or read its disk. */
const LOCAL = /^(Placeholder|ReadFile$|MatchingFiles$)/;

/** Whether an op gives the same small value wherever it runs, if its inputs do. */
export function isSmallAndPure(op: Operation): boolean {
  if (LOCAL.test(op.type)) return false;
  return isPure(op) && op.outputs.length > 0 && op.outputs.every(isSmall);
}

function isSmall({ dtype, shape }: Output): boolean {
  if (dtype === 'resource' || dtype === 'variant' || shape === null) return false;
  return shape.reduce<number>((size, dim) => size * (dim ?? Number.POSITIVE_INFINITY), 1) <= MOST_ELEMENTS;
}
