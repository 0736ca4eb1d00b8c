/** The properties of ops that decide where a run may be divided. */
import { isPure, opDef } from '../../../tensorflow/graph/op-def.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';

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
