/**
 * Symbolic gradients: the reverse walk from the losses to what they depend on. Ops get their gradients
 * from the registry; for an op that is not there TensorFlow's C++ gradient is asked; if there is none the
 * error names the op and its way to the loss.
 */
import { invalid, ShoalError } from '../errors/errors.js';
import type { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { asOutput, isOutputLike, type Operand } from '../ops/build.js';
import { onesLike, zerosLike } from '../ops/creation.js';
import { type DType, isComplex, isFloating } from '../tensor/dtype.js';
import { PartitionedVariable } from '../variables/partitioned.js';
import { Variable } from '../variables/variable.js';
import { aggregate, type Gradient, toDense } from './indexed-slices.js';
import { nativeGradient } from './native.js';
import { gradientOf } from './registry.js';

export interface GradientOptions {
  /** The gradients that flow into the ys; ones when left out. */
  readonly gradYs?: readonly (Operand | null)[];
  /** Treated as constants. */
  readonly stopGradients?: readonly (Output | Variable)[];
  /** What an x that no y depends on gets. */
  readonly unconnected?: 'none' | 'zero';
  readonly name?: string;
}

export type Differentiable = Output | Variable;

/** The handle of a variable, or the output itself. */
const target = (x: Differentiable): Output => (x instanceof Variable ? x.handle : x);

export const isDifferentiableType = (dtype: DType): boolean =>
  isFloating(dtype) || isComplex(dtype) || dtype === 'resource' || dtype === 'variant';

/** d(sum of ys) / dx for each x; null where no y depends on it. */
export function gradients(
  ys: Differentiable | readonly Differentiable[],
  xs: readonly Differentiable[],
  options: GradientOptions = {},
): (Gradient | null)[] {
  const losses = (Array.isArray(ys) ? ys : [ys as Differentiable]).map((y: Differentiable) => y.toOutput());
  if (losses.length === 0 || xs.length === 0) return [];
  for (const x of xs) {
    if (x instanceof PartitionedVariable || !isOutputLike(x)) {
      throw invalid(
        'Gradients are taken of outputs and variables; take those of a partitioned variable of its parts',
      );
    }
  }
  const graph = (losses[0] as Output).graph;
  return graph.asDefault(() =>
    graph.nameScope(options.name ?? 'gradients', () => walk(graph, losses, xs, options)),
  );
}

function walk(
  graph: Graph,
  losses: readonly Output[],
  xs: readonly Differentiable[],
  options: GradientOptions,
): (Gradient | null)[] {
  const targets = xs.map(target);
  const stops = new Set((options.stopGradients ?? []).map((stop) => target(stop)));
  const between = opsBetween(losses, targets, stops);
  const pending = countConsumers(losses, between);
  const flowing = new Map<Output, Gradient[]>();
  const push = (output: Output, gradient: Gradient) => {
    const list = flowing.get(output);
    if (list) list.push(gradient);
    else flowing.set(output, [gradient]);
  };
  const wanted = new Set(targets);
  const results = new Map<Output, Gradient>();

  losses.forEach((loss, i) => {
    if (!isDifferentiableType(loss.dtype))
      throw invalid(`A gradient of ${loss} cannot be taken: it is ${loss.dtype}`);
    const given = options.gradYs?.[i];
    push(loss, given === null || given === undefined ? onesLike(loss) : asOutput(given, loss.dtype));
  });

  const ready = [...between.keys()].filter((op) => pending.get(op) === 0);
  for (let op = ready.pop(); op; op = ready.pop()) {
    const current = op;
    const grads = current.outputs.map((output) => {
      const list = flowing.get(output);
      if (!list) return undefined;
      flowing.delete(output);
      const sum = aggregate(list);
      if (wanted.has(output)) results.set(output, sum);
      return sum;
    });
    const isSource = current.outputs.every((output) => stops.has(output)) || current.inputs.length === 0;
    const inputs = isSource
      ? []
      : graph.nameScope(`${current.name.split('/').at(-1)}_grad`, () =>
          inputGradients(current, grads, between),
        );
    current.inputs.forEach((input, i) => {
      const gradient = inputs[i];
      if (gradient && between.has(input.op) && !stops.has(input)) push(input, gradient);
      if (between.has(input.op)) release(input.op, pending, ready);
    });
  }
  return targets.map((x) => results.get(x) ?? unconnected(x, options));
}

function unconnected(x: Output, options: GradientOptions): Gradient | null {
  if (options.unconnected !== 'zero' || x.dtype === 'resource') return null;
  return zerosLike(x);
}

/** Ops on a path from a target to a loss, each with the op that it feeds on that path. */
function opsBetween(
  losses: readonly Output[],
  targets: readonly Output[],
  stops: ReadonlySet<Output>,
): Map<Operation, Operation | undefined> {
  const consumer = new Map<Operation, Operation | undefined>();
  const order: Operation[] = [];
  const stack = losses.map(({ op }) => op);
  for (const op of stack) consumer.set(op, undefined);
  for (let op = stack.pop(); op; op = stack.pop()) {
    order.push(op);
    for (const input of op.inputs) {
      if (consumer.has(input.op) || !isDifferentiableType(input.dtype)) continue;
      consumer.set(input.op, op);
      stack.push(input.op);
    }
  }
  // Forward from the targets, among what the losses reach.
  const consumers = new Map<Operation, Operation[]>();
  for (const op of order) {
    for (const input of op.inputs) {
      if (!consumer.has(input.op) || !isDifferentiableType(input.dtype) || stops.has(input)) continue;
      const list = consumers.get(input.op);
      if (list) list.push(op);
      else consumers.set(input.op, [op]);
    }
  }
  const between = new Map<Operation, Operation | undefined>();
  const forward = targets.map(({ op }) => op).filter((op) => consumer.has(op));
  for (let op = forward.pop(); op; op = forward.pop()) {
    if (between.has(op)) continue;
    between.set(op, consumer.get(op));
    forward.push(...(consumers.get(op) ?? []));
  }
  return between;
}

/** How many inputs of ops in between each op feeds: its gradients are whole when all have been handled. */
function countConsumers(
  _losses: readonly Output[],
  between: ReadonlyMap<Operation, unknown>,
): Map<Operation, number> {
  const pending = new Map<Operation, number>([...between.keys()].map((op) => [op, 0]));
  for (const op of between.keys()) {
    for (const input of op.inputs) {
      const count = pending.get(input.op);
      if (count !== undefined) pending.set(input.op, count + 1);
    }
  }
  return pending;
}

function release(op: Operation, pending: Map<Operation, number>, ready: Operation[]): void {
  const left = (pending.get(op) as number) - 1;
  pending.set(op, left);
  if (left === 0) ready.push(op);
}

function inputGradients(
  op: Operation,
  grads: readonly (Gradient | undefined)[],
  between: ReadonlyMap<Operation, Operation | undefined>,
): readonly (Gradient | null | undefined)[] {
  if (grads.every((grad) => grad === undefined)) return [];
  const gradient = gradientOf(op.type);
  if (gradient === null) return [];
  if (gradient === undefined) return fallback(op, grads, between);
  const result =
    typeof gradient === 'function'
      ? gradient(
          op,
          grads.map((grad) => grad && toDense(grad)),
        )
      : gradient.slices(op, grads);
  if (result.length !== op.inputs.length) {
    throw new ShoalError(
      'SHOAL_INTERNAL',
      `The gradient of ${op.type} returned ${result.length} gradients for ${op.inputs.length} inputs`,
      { op: op.name },
    );
  }
  return result;
}

function fallback(
  op: Operation,
  grads: readonly (Gradient | undefined)[],
  between: ReadonlyMap<Operation, Operation | undefined>,
): readonly (Gradient | null)[] {
  const dense = grads.map((grad) => grad && toDense(grad));
  const relevant = op.inputs.map((input) => between.has(input.op) && isDifferentiableType(input.dtype));
  const found = nativeGradient(op, dense, relevant);
  if (found) return found;
  const path = [`${op.name} (${op.type})`];
  for (let at = between.get(op); at && path.length < 12; at = between.get(at))
    path.push(`${at.name} (${at.type})`);
  throw new ShoalError('SHOAL_NO_GRADIENT', `There is no gradient for op ${op.type} '${op.name}'`, {
    op: op.name,
    hint: `It lies on the way to the loss: ${path.join(' → ')}. Put tf.stopGradient around what need not be trained.`,
  });
}
