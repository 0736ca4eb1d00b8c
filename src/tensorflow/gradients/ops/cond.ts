/** The gradient of a cond is a cond: each branch runs its forward branch again and differentiates it. */
import { FunctionGraph, type GraphFunction, type TracedBody } from '../../graph/function.js';
import { currentGraph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { condOfBodies } from '../../ops/control-flow.js';
import type { GradientContext } from '../gradient-function.js';
import { type Gradient, IndexedSlices, toDense } from '../indexed-slices.js';
import {
  type Form,
  formOf,
  functionGradients,
  noSlices,
  valueShape,
  wideIndices,
  zerosFor,
} from './functions.js';

interface Branch {
  readonly graph: FunctionGraph;
  readonly args: readonly Output[];
  readonly found: readonly (Gradient | null)[];
}

export function condGradient(
  functions: readonly [GraphFunction, GraphFunction],
  op: Operation,
  grads: readonly (Output | undefined)[],
  context: GradientContext,
): (Gradient | null)[] {
  const [predicate, ...args] = op.inputs as [Output, ...Output[]];
  const wanted = context.needed.slice(1);
  const branches = functions.map((fn) => differentiate(fn, args, grads, wanted, context));
  const forms = args.map((_, i) => formOf(branches.map(({ found }) => found[i] ?? null)));
  if (forms.every(({ kind }) => kind === 'none')) return op.inputs.map(() => null);
  const [then, otherwise] = branches.map((branch) => settle(branch, forms)) as [TracedBody, TracedBody];
  return [null, ...collect(args, forms, condOfBodies(predicate, then, otherwise))];
}

function differentiate(
  fn: GraphFunction,
  args: readonly Output[],
  grads: readonly (Output | undefined)[],
  wanted: readonly boolean[],
  context: GradientContext,
): Branch {
  const graph = new FunctionGraph(currentGraph());
  return graph.asDefault(() => {
    const own = args.map((arg) => graph.capture(arg));
    const incoming = grads.map((grad) => grad && graph.capture(grad));
    return { graph, args: own, found: functionGradients(fn, own, incoming, wanted, context) };
  });
}

/** Both branches must return the same tensors: a gradient that one of them lacks is zeros, or empty slices. */
function settle({ graph, args, found }: Branch, forms: readonly Form[]): TracedBody {
  const results = graph.asDefault(() =>
    forms.flatMap((form, i): readonly Output[] => {
      const [arg, gradient] = [args[i] as Output, found[i] ?? null];
      if (form.kind === 'none') return [];
      if (form.kind === 'dense') return [gradient ? toDense(gradient) : zerosFor(arg, form.dtype)];
      return gradient instanceof IndexedSlices
        ? [gradient.values, wideIndices(gradient)]
        : noSlices(arg, form.dtype);
    }),
  );
  return { graph, specs: [], args: [], results: results.map((result) => graph.capture(result)) };
}

function collect(
  args: readonly Output[],
  forms: readonly Form[],
  outputs: readonly Output[],
): (Gradient | null)[] {
  let at = 0;
  const next = (): Output => outputs[at++] as Output;
  return forms.map(({ kind }, i) => {
    if (kind === 'none') return null;
    if (kind === 'dense') return next();
    const [values, indices] = [next(), next()];
    return new IndexedSlices(values, indices, valueShape(args[i] as Output, 'int64'));
  });
}
