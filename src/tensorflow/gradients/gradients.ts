/**
 * Symbolic gradients: walks the graph in reverse from the losses. Gradient functions come from the registry, else from
 * TensorFlow's C++ gradients; if there is neither, the error names the op and its path to the loss.
 */

import { invalid, ShoalError } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { FunctionGraph } from '../graph/function.js';
import type { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { asOutput, isOutputLike, type Operand } from '../ops/build.js';
import { onesLike, zerosLike } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import type { DType } from '../tensor/dtype.js';
import { broadcastShapes, formatShape } from '../tensor/shape.js';
import { PartitionedVariable } from '../variables/partitioned.js';
import { Variable } from '../variables/variable.js';
import type { Differentiable, GradientContext, GradientOptions } from './gradient-function.js';
import { aggregate, type Gradient, IndexedSlices, toDense } from './indexed-slices.js';
import { nativeGradient } from './native.js';
import { findPaths, isDifferentiableType, type Paths } from './paths.js';
import { gradientOf } from './registry.js';

export type { Differentiable, GradientOptions } from './gradient-function.js';
export { isDifferentiableType } from './paths.js';

/** d(sum of ys) / dx for each x; null where no y depends on it. */
export function gradients(
  ys: Differentiable | readonly Differentiable[],
  xs: readonly Differentiable[],
  given: OrNull<GradientOptions> = {},
): (Gradient | null)[] {
  const options = withoutNull<GradientOptions>(given);
  const losses = (Array.isArray(ys) ? ys : [ys as Differentiable]).map((y: Differentiable) => y.toOutput());
  const graph = losses[0]?.graph;
  if (graph === undefined || xs.length === 0) return xs.map(() => null);
  checkLosses(graph, losses, options);
  return graph.asDefault(() =>
    graph.nameScope(options.name ?? 'gradients', () => walk(graph, losses, xs, options)),
  );
}

function checkLosses(graph: Graph, losses: readonly Output[], { gradYs }: GradientOptions): void {
  if (gradYs && gradYs.length !== losses.length) {
    throw invalid(`gradYs has ${gradYs.length} entries for ${losses.length} ys`, {
      hint: 'Pass one per y; null means ones.',
    });
  }
  for (const loss of losses) {
    if (loss.graph !== graph) throw invalid(`${loss} and ${losses[0]} belong to different graphs`);
    if (!isDifferentiableType(loss.dtype) || loss.dtype === 'resource') {
      throw invalid(`Cannot differentiate ${loss}: its dtype is ${loss.dtype}`, {
        op: loss.op.name,
        hint: 'A loss must be floating-point or complex; casting does not make integers differentiable.',
      });
    }
  }
}

/** The tensor at which gradients of `x` accumulate: a variable's handle, or the capture of an outer tensor. */
function targetOf(graph: Graph, x: Differentiable): Output | undefined {
  if (x instanceof PartitionedVariable || !isOutputLike(x)) {
    throw invalid('Gradients can be computed only for outputs and variables', {
      hint: 'For a partitioned variable, pass its parts.',
    });
  }
  const own = x instanceof Variable ? x.handle : x;
  if (own.graph === graph) return own;
  for (let outer = graph; outer instanceof FunctionGraph; outer = outer.outer) {
    if (outer.outer !== own.graph) continue;
    return (graph as FunctionGraph).captures.find((capture) => capture.outer === own)?.inner;
  }
  throw invalid(`${own} does not belong to the graph of the loss`);
}

function walk(
  graph: Graph,
  losses: readonly Output[],
  xs: readonly Differentiable[],
  options: GradientOptions,
): (Gradient | null)[] {
  const targets = xs.map((x) => targetOf(graph, x));
  const present = targets.filter((target) => target !== undefined);
  const stops = new Set((options.stopGradients ?? []).map((stop) => targetOf(graph, stop)));
  const paths = findPaths(losses, present, stops as ReadonlySet<Output>);
  const flow = new Flow();
  losses.forEach((loss, i) => {
    if (paths.active.has(loss)) flow.push(loss, incoming(loss, options.gradYs?.[i]));
  });

  const pending = countConsumers(paths);
  const ready = [...pending.keys()].filter((op) => pending.get(op) === 0);
  for (let op = ready.pop(); op; op = ready.pop()) {
    const current = op;
    const grads = current.outputs.map((output) => {
      const sum = flow.sum(output);
      return stops.has(output) ? undefined : sum;
    });
    const inputs = current.inputs;
    if (grads.some((grad) => grad !== undefined)) {
      const needed = inputs.map((input) => paths.active.has(input));
      const found = withinOp(graph, current, options, () => inputGradients(current, grads, needed, paths));
      found.forEach((gradient, i) => {
        if (gradient && needed[i]) flow.push(inputs[i] as Output, gradient);
      });
    }
    for (const { op: source } of inputs) {
      const left = pending.get(source);
      if (left === undefined) continue;
      pending.set(source, left - 1);
      if (left === 1) ready.push(source);
    }
  }
  return targets.map(
    (target, i) => (target && flow.sum(target)) ?? unconnected(xs[i] as Differentiable, options),
  );
}

/** Accumulated gradients by tensor. */
class Flow {
  readonly #parts = new Map<Output, Gradient[]>();

  push(output: Output, gradient: Gradient): void {
    const parts = this.#parts.get(output);
    if (parts) parts.push(gradient);
    else this.#parts.set(output, [gradient]);
  }

  /** The sum of the gradients so far; computed once. */
  sum(output: Output): Gradient | undefined {
    const parts = this.#parts.get(output);
    if (!parts) return undefined;
    const sum = aggregate(parts);
    if (parts.length > 1) this.#parts.set(output, [sum]);
    return sum;
  }
}

function incoming(loss: Output, given: Operand | IndexedSlices | null | undefined): Gradient {
  if (given === null || given === undefined) return onesLike(loss);
  if (given instanceof IndexedSlices) return given;
  const gradient = asOutput(given, loss.dtype);
  const isPossible =
    loss.shape === null ||
    gradient.shape === null ||
    (loss.rank === gradient.rank &&
      broadcastShapes(loss.shape, gradient.shape)?.every(
        (dim, i) => dim === null || [dim, null].includes(loss.shape?.[i] as number | null),
      ));
  if (!isPossible) {
    throw invalid(
      `The entry of gradYs for ${loss} has shape ${formatShape(gradient.shape)}; expected ${formatShape(loss.shape)}`,
    );
  }
  return gradient;
}

function unconnected(x: Differentiable, options: GradientOptions): Gradient | null {
  if (options.unconnected !== 'zero') return null;
  if (x instanceof Variable || x.dtype !== 'resource') return zerosLike(x.toOutput());
  const dtype = x.op.attr('dtype');
  return typeof dtype === 'string' ? zerosLike(raw.readVariableOp(x, { dtype: dtype as DType })) : null;
}

/** For each op on the paths, the number of op inputs it feeds: its gradients are complete when all are processed. */
function countConsumers({ ops }: Paths): Map<Operation, number> {
  const pending = new Map<Operation, number>();
  for (const op of ops.keys()) pending.set(op, 0);
  for (const op of ops.keys()) {
    for (const input of op.inputs) {
      const count = pending.get(input.op);
      if (count !== undefined) pending.set(input.op, count + 1);
    }
  }
  return pending;
}

function withinOp<T>(graph: Graph, op: Operation, options: GradientOptions, body: () => T): T {
  const named = () => graph.nameScope(`${op.name.slice(op.name.lastIndexOf('/') + 1)}_grad`, body);
  return options.colocateGradientsWithOps ? graph.colocateWith(op, named) : named();
}

function inputGradients(
  op: Operation,
  grads: readonly (Gradient | undefined)[],
  needed: readonly boolean[],
  paths: Paths,
): readonly (Gradient | null | undefined)[] {
  const gradient = gradientOf(op.type);
  if (gradient === null) return [];
  const dense = () => grads.map((grad) => grad && toDense(grad));
  if (gradient === undefined) {
    const found = nativeGradient(op, dense(), needed);
    if (!found) throw missing(op, paths);
    return found;
  }
  const context: GradientContext = { needed, gradients };
  const result =
    typeof gradient === 'function' ? gradient(op, dense(), context) : gradient.slices(op, grads, context);
  if (result.length !== op.inputs.length) {
    throw new ShoalError(
      'SHOAL_INTERNAL',
      `The gradient of ${op.type} returned ${result.length} gradients for ${op.inputs.length} inputs`,
      { op: op.name },
    );
  }
  return result;
}

const SHOWN_PATH = 12;
const STOP_HINT = 'Use tf.stopGradient on tensors that need no training.';
const LOOP_HINT =
  'The loops and conditions of TensorFlow 1 have no gradient here: use tf.whileLoop and tf.cond.';
const OLD_LOOPS = new Set(['Enter', 'Exit', 'LoopCond', 'Merge', 'NextIteration', 'Switch']);

function missing(op: Operation, paths: Paths): ShoalError {
  const way: string[] = [];
  for (let at: Operation | undefined = op; at; at = paths.ops.get(at)) way.push(`${at.name} (${at.type})`);
  const shown =
    way.length > SHOWN_PATH
      ? [...way.slice(0, SHOWN_PATH - 2), `… ${way.length - SHOWN_PATH + 1} more …`, way.at(-1)]
      : way;
  return new ShoalError(
    'SHOAL_NO_GRADIENT',
    `No gradient for op ${op.type} '${op.name}' on the path to the loss: ${shown.join(' → ')}`,
    { op: op.name, hint: OLD_LOOPS.has(op.type) ? LOOP_HINT : STOP_HINT },
  );
}
