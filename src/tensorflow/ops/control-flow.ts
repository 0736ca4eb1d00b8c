/** cond and while, as graph functions: both branches are traced, one runs. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import {
  callArguments,
  type FunctionOptions,
  finishFunction,
  type GraphFunction,
  type TracedBody,
  traceBody,
} from '../graph/function.js';
import type { OpOptions } from '../graph/graph.js';
import { type Operation, Output } from '../graph/operation.js';
import type { DType } from '../tensor/dtype.js';
import { formatShape, type PartialShape } from '../tensor/shape.js';
import { asOutput, build, type Operand } from './build.js';

export type Branch = () => Operand | readonly Operand[];

const asList = (value: Operand | readonly Operand[]): Output[] =>
  Array.isArray(value) && value.some((item) => item instanceof Output || typeof item === 'object')
    ? value.map((item: Operand) => asOutput(item))
    : [asOutput(value as Operand)];

/** The functions called by an If, a While or a call op, kept for differentiation. */
const functionsOf = new WeakMap<Operation, readonly GraphFunction[]>();

export function functionsOfOp(op: Operation): readonly GraphFunction[] | undefined {
  return functionsOf.get(op);
}

/** Registers the functions of an op that was copied, not created here. */
export function rememberFunctions(op: Operation, functions: readonly GraphFunction[]): void {
  functionsOf.set(op, functions);
}

interface Body extends FunctionOptions {
  readonly traced: TracedBody;
}

/** Creates functions with identical captures, so that they share one signature. */
function finishTogether(bodies: readonly Body[]): GraphFunction[] {
  const captures = [
    ...new Set(bodies.flatMap(({ traced }) => traced.graph.captures.map(({ outer }) => outer))),
  ];
  return bodies.map(({ traced, ...options }) => finishFunction(traced, { ...options, captures }));
}

/** The results of `then` if the scalar condition is true, else of `otherwise`; only that branch runs. */
export function cond(pred: Operand, then: Branch, otherwise: Branch, options: OpOptions = {}): Output[] {
  const trace = (branch: Branch) => traceBody([], () => asList(branch()));
  return condOfBodies(asOutput(pred, 'bool'), trace(then), trace(otherwise), options);
}

/** `cond` with already traced branches. */
export function condOfBodies(
  predicate: Output,
  then: TracedBody,
  otherwise: TracedBody,
  options: OpOptions = {},
): Output[] {
  const [thenFn, elseFn] = finishTogether([
    { name: 'cond_true', traced: then },
    { name: 'cond_false', traced: otherwise },
  ]) as [GraphFunction, GraphFunction];
  checkSame('The branches of cond', thenFn, elseFn);
  const stateful = thenFn.stateful || elseFn.stateful;
  const op = build(
    stateful ? 'If' : 'StatelessIf',
    [predicate, callArguments(thenFn, [])],
    {
      Tcond: 'bool',
      Tout: thenFn.outputs.map(({ dtype }) => dtype),
      then_branch: thenFn,
      else_branch: elseFn,
      output_shapes: thenFn.outputs.map(({ shape }, i) =>
        commonShape(shape, (elseFn.outputs[i] as { shape: PartialShape }).shape),
      ),
    },
    { ...options, name: options.name ?? 'cond' },
  );
  functionsOf.set(op, [thenFn, elseFn]);
  return [...op.outputs];
}

/** One value from `cond`. */
export function condOne(
  pred: Operand,
  then: () => Operand,
  otherwise: () => Operand,
  options?: OpOptions,
): Output {
  return cond(
    pred,
    () => asOutput(then()),
    () => asOutput(otherwise()),
    options,
  )[0] as Output;
}

export interface WhileOptions extends OpOptions {
  /** Stops after this many iterations. Default: no limit. */
  readonly maximumIterations?: number;
  /**
   * Static shapes of the loop variables, with null for sizes that change between iterations; default: those of the
   * initial values.
   */
  readonly shapeInvariants?: readonly PartialShape[];
}

/** Runs `body` on the loop variables while `condition` holds; returns their final values. */
export function whileLoop(
  condition: (...vars: Output[]) => Operand,
  body: (...vars: Output[]) => Operand | readonly Operand[],
  initial: readonly Operand[],
  given: OrNull<WhileOptions> = {},
): Output[] {
  const options = withoutNull<WhileOptions>(given);
  const { maximumIterations, shapeInvariants, ...rest } = options;
  if (initial.length === 0) throw invalid('A while loop needs at least one loop variable');
  const counted = maximumIterations !== undefined;
  const vars = initial.map((value) => asOutput(value));
  const shapes = shapeInvariants ?? vars.map(({ shape }) => shape);
  const start = counted ? [asOutput(0, 'int32'), ...vars] : vars;
  const specs = [
    ...(counted ? [{ dtype: 'int32' as DType, shape: [] as PartialShape }] : []),
    ...vars.map(({ dtype }, i) => ({ dtype, shape: shapes[i] as PartialShape })),
  ];
  const test = traceBody(specs, (...args) => {
    const own = counted ? args.slice(1) : args;
    const holds = asOutput(condition(...own), 'bool');
    if (!counted) return holds;
    const more = build('Less', [args[0] as Output, maximumIterations]).output();
    return build('LogicalAnd', [more, holds]).output();
  });
  const step = traceBody(specs, (...args) => {
    const own = counted ? args.slice(1) : args;
    const next = asList(body(...own));
    checkLoopVars(own, next);
    return counted ? [build('AddV2', [args[0] as Output, 1]).output(), ...next] : next;
  });
  return whileOfBodies(test, step, start, rest).slice(counted ? 1 : 0);
}

/** `whileLoop` with an already traced condition and body of the same arguments. */
export function whileOfBodies(
  test: TracedBody,
  step: TracedBody,
  start: readonly Output[],
  options: OpOptions = {},
): Output[] {
  const [condFn, bodyFn] = finishTogether([
    { name: 'while_cond', traced: test },
    { name: 'while_body', traced: step, returnCaptures: true },
  ]) as [GraphFunction, GraphFunction];
  const inputs = [...start, ...bodyFn.captures];
  const op = build(
    condFn.stateful || bodyFn.stateful ? 'While' : 'StatelessWhile',
    [inputs],
    {
      T: inputs.map(({ dtype }) => dtype),
      cond: condFn,
      body: bodyFn,
      output_shapes: [
        ...step.specs.map(({ shape = null }) => shape),
        ...bodyFn.captures.map(({ shape }) => shape),
      ],
    },
    { ...options, name: options.name ?? 'while' },
  );
  functionsOf.set(op, [condFn, bodyFn]);
  return op.outputs.slice(0, start.length);
}

/** Calls a function of this graph. */
export function callFunction(fn: GraphFunction, args: readonly Operand[], options: OpOptions = {}): Output[] {
  const inputs = callArguments(
    fn,
    args.map((arg, i) => asOutput(arg, fn.inputs[i]?.dtype)),
  );
  const op = build(
    fn.stateful ? 'StatefulPartitionedCall' : 'PartitionedCall',
    [inputs],
    { Tin: inputs.map(({ dtype }) => dtype), Tout: fn.outputs.map(({ dtype }) => dtype), f: fn },
    { ...options, name: options.name ?? fn.functionName },
  );
  functionsOf.set(op, [fn]);
  return op.outputs.map((output, i) => output.setShape(fn.outputs[i]?.shape ?? null));
}

function checkSame(what: string, a: GraphFunction, b: GraphFunction): void {
  const show = (fn: GraphFunction) =>
    fn.outputs.map(({ dtype, shape }) => `${dtype} ${formatShape(shape)}`).join(', ');
  if (
    a.outputs.length !== b.outputs.length ||
    a.outputs.some(({ dtype }, i) => dtype !== b.outputs[i]?.dtype)
  ) {
    throw invalid(`${what} must return values of the same types; got (${show(a)}) and (${show(b)})`);
  }
}

function checkLoopVars(before: readonly Output[], after: readonly Output[]): void {
  if (before.length !== after.length || before.some(({ dtype }, i) => dtype !== after[i]?.dtype)) {
    const show = (list: readonly Output[]) => list.map(({ dtype }) => dtype).join(', ');
    throw invalid(
      `The body of a while loop must return its loop variables (${show(before)}); got (${show(after)})`,
    );
  }
  for (const [i, { shape }] of before.entries()) {
    const next = (after[i] as Output).shape;
    if (isAtLeastAsExact(next, shape)) continue;
    throw invalid(
      `Loop variable ${i} has shape ${formatShape(shape)} before an iteration and ${formatShape(next)} after it`,
      { hint: 'Set shapeInvariants, with null for each size that changes.' },
    );
  }
}

/** Whether `shape` has every size that is known in `loose`. */
function isAtLeastAsExact(shape: PartialShape, loose: PartialShape): boolean {
  if (loose === null) return true;
  return (
    shape !== null &&
    shape.length === loose.length &&
    loose.every((dim, axis) => dim === null || dim === shape[axis])
  );
}

function commonShape(a: PartialShape, b: PartialShape): PartialShape {
  if (a === null || b === null || a.length !== b.length) return null;
  return a.map((dim, i) => (dim === b[i] ? dim : null));
}
