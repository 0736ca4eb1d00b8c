/**
 * The gradient of a loop is two loops. The first runs the loop again and pushes the initial values of each iteration
 * onto lists; the second pops the iterations in reverse, runs each again and differentiates it.
 * Loop invariants are not stored; their gradients are summed over the iterations.
 */
import {
  type ArgumentSpec,
  FunctionGraph,
  type GraphFunction,
  type TracedBody,
} from '../../graph/function.js';
import { currentGraph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { whileOfBodies } from '../../ops/control-flow.js';
import * as raw from '../../ops/generated/index.js';
import { inlineFunction } from '../../ops/inline.js';
import type { DType } from '../../tensor/dtype.js';
import type { PartialShape } from '../../tensor/shape.js';
import { Tensor } from '../../tensor/tensor.js';
import type { GradientContext } from '../gradient-function.js';
import { aggregate, type Gradient, IndexedSlices } from '../indexed-slices.js';
import { isDifferentiableType } from '../paths.js';
import { int32 } from '../pieces.js';
import { functionGradients, rowShape, valueShape, wideIndices, zerosFor } from './functions.js';

/** The loop to differentiate. Numbers are input indices of the op. */
interface Loop {
  readonly inputs: readonly Output[];
  readonly test: GraphFunction;
  readonly body: GraphFunction;
  /** The variables that iterations change. */
  readonly varying: readonly number[];
  /** The differentiable ones among them. */
  readonly flowing: readonly number[];
}

const LIST: ArgumentSpec = { dtype: 'variant', shape: [] };

export function whileGradient(
  [test, body]: readonly [GraphFunction, GraphFunction],
  op: Operation,
  grads: readonly (Output | undefined)[],
  context: GradientContext,
): (Gradient | null)[] {
  const { inputs } = op;
  const varying = inputs.flatMap((_, i) => (isUnchanged(body, i) ? [] : [i]));
  const flowing = varying.filter((i) => isDifferentiableType((inputs[i] as Output).dtype));
  const loop: Loop = { inputs, test, body, varying, flowing };
  const passed = inputs.map((_, i) => (varying.includes(i) ? null : (grads[i] ?? null)));
  if (!flowing.some((i) => grads[i])) return passed;
  const last = flowing.map((i) => grads[i] ?? raw.zerosLike(op.output(i)));
  const found = reverse(loop, replay(loop), last, context);
  return inputs.map((_, i) => {
    const parts = [passed[i], found.get(i)].filter((part) => part !== null && part !== undefined);
    return parts.length === 0 ? null : aggregate(parts);
  });
}

function isUnchanged(body: GraphFunction, place: number): boolean {
  let from = body.bodyOutputs[place] as Output;
  while (from.op.type === 'Identity') from = from.op.inputs[0] as Output;
  return from === body.bodyInputs[place];
}

const specOf = ({ body }: Loop, place: number): Required<Pick<ArgumentSpec, 'dtype' | 'shape'>> => {
  const { dtype, shape } = body.bodyInputs[place] as Output;
  return { dtype, shape };
};

/** A shape for list ops: a scalar -1 if the rank is unknown. */
const elementShape = (shape: PartialShape): Tensor =>
  shape === null ? int32(-1) : int32(shape.map((dim) => dim ?? -1));

const emptyList = (dtype: DType, shape: PartialShape): Output =>
  raw.emptyTensorList(elementShape(shape), int32(-1), { elementDtype: dtype });

/** Builds the body of a function with these arguments in a separate graph. */
function trace(
  specs: readonly ArgumentSpec[],
  make: (graph: FunctionGraph, args: readonly Output[]) => readonly Output[],
): TracedBody {
  const graph = new FunctionGraph(currentGraph());
  return graph.asDefault(() => {
    const args = specs.map((spec, i) => graph.placeholder({ name: `arg_${i}`, ...spec }));
    return { graph, specs, args, results: make(graph, args).map((result) => graph.capture(result)) };
  });
}

/** All arguments of an iteration: the changing ones as given, the others captured. */
function roundArguments(loop: Loop, graph: FunctionGraph, changing: readonly Output[]): Output[] {
  return loop.inputs.map((input, i) => {
    const at = loop.varying.indexOf(i);
    return at < 0 ? graph.capture(input) : (changing[at] as Output);
  });
}

/** Runs the loop again; returns for each changing variable the list of its initial values per iteration. */
function replay(loop: Loop): Output[] {
  const { varying, inputs } = loop;
  const count = varying.length;
  const specs = [...varying.map(() => LIST), ...varying.map((i) => specOf(loop, i))];
  const test = trace(specs, (graph, args) =>
    inlineFunction(loop.test, roundArguments(loop, graph, args.slice(count))),
  );
  const step = trace(specs, (graph, args) => {
    const changing = args.slice(count);
    const next = inlineFunction(loop.body, roundArguments(loop, graph, changing));
    const pushed = changing.map((value, at) => raw.tensorListPushBack(args[at] as Output, value));
    return [...pushed, ...varying.map((i) => shaped(next[i] as Output, specOf(loop, i).shape))];
  });
  const start = varying.map((i) => emptyList(specOf(loop, i).dtype, specOf(loop, i).shape));
  return whileOfBodies(test, step, [...start, ...varying.map((i) => inputs[i] as Output)]).slice(0, count);
}

/** Shape inference may know less of a result than of the loop variable that it becomes. */
function shaped(x: Output, shape: PartialShape): Output {
  const isLess =
    shape !== null && (x.shape === null || shape.some((dim, i) => dim !== null && x.shape?.[i] === null));
  return isLess ? x.setShape(shape) : x;
}

/** How the gradients of a loop invariant are accumulated: in a tensor, or as slices in two lists. */
interface Total {
  readonly place: number;
  readonly specs: readonly ArgumentSpec[];
  readonly start: () => readonly Output[];
  readonly add: (totals: readonly Output[]) => readonly Output[];
  readonly finish: (totals: readonly Output[]) => Gradient;
}

function totalOf(loop: Loop, place: number, gradient: Gradient): Total {
  const input = loop.inputs[place] as Output;
  const { dtype } = gradient;
  if (!(gradient instanceof IndexedSlices)) {
    const shape = input.dtype === 'resource' ? null : input.shape;
    return {
      place,
      specs: [{ dtype, shape }],
      start: () => [zerosFor(input, dtype)],
      add: ([total]) => [shaped(raw.addN([total as Output, gradient]), shape)],
      finish: ([total]) => total as Output,
    };
  }
  return {
    place,
    specs: [LIST, LIST],
    start: () => [emptyList(dtype, null), emptyList('int64', [null])],
    add: ([values, indices]) => [
      raw.tensorListPushBack(values as Output, gradient.values),
      raw.tensorListPushBack(indices as Output, wideIndices(gradient)),
    ],
    finish: ([values, indices]) => {
      const shape = raw.concatV2([int32([-1]), rowShape(input)], int32(0));
      return new IndexedSlices(
        joined(values as Output, shape, dtype),
        joined(indices as Output, int32([-1]), 'int64'),
        valueShape(input, 'int64'),
      );
    },
  };
}

const joined = (list: Output, shape: Output | Tensor, elementDtype: DType): Output =>
  raw.tensorListConcatV2(list, shape, Tensor.of(new BigInt64Array(0)), { elementDtype }).tensor;

/** The last value of a list, and the list without it. */
function pop(list: Output, { dtype, shape }: ReturnType<typeof specOf>) {
  const { outputHandle, tensor } = raw.tensorListPopBack(list, elementShape(shape), { elementDtype: dtype });
  return { rest: outputHandle, value: shaped(tensor, shape) };
}

/** Runs the iterations in reverse; returns the gradients of the loop's inputs by index. */
function reverse(
  loop: Loop,
  lists: readonly Output[],
  last: readonly Output[],
  context: GradientContext,
): Map<number, Gradient> {
  const { varying, flowing, inputs } = loop;
  const shared = inputs.flatMap((_, i) => (!varying.includes(i) && context.needed[i] ? [i] : []));
  const wanted = inputs.map((_, i) => flowing.includes(i) || shared.includes(i));
  const fixed = [...varying.map(() => LIST), ...flowing.map((i) => specOf(loop, i))];
  let totals: Total[] = [];

  // The totals are known only once the iteration is differentiated: their arguments are added then.
  const step = trace(fixed, (graph, args) => {
    const popped = varying.map((i, at) => pop(args[at] as Output, specOf(loop, i)));
    const own = roundArguments(
      loop,
      graph,
      popped.map(({ value }) => value),
    );
    const incoming: (Output | undefined)[] = inputs.map(() => undefined);
    for (const [at, i] of flowing.entries()) incoming[i] = args[varying.length + at];
    const found = functionGradients(loop.body, own, incoming, wanted, context);
    const carried = flowing.map((i) => {
      const gradient = found[i];
      const dense = gradient instanceof IndexedSlices ? gradient.toDense() : gradient;
      return shaped(dense ?? raw.zerosLike(own[i] as Output), specOf(loop, i).shape);
    });
    totals = shared.flatMap((i) => (found[i] ? [totalOf(loop, i, found[i])] : []));
    return [...popped.map(({ rest }) => rest), ...carried];
  });
  const specs = [...fixed, ...totals.flatMap((total) => total.specs)];
  const args = [...step.args];
  const results = [...step.results];
  step.graph.asDefault(() => {
    for (const total of totals) {
      const own = total.specs.map((spec) => step.graph.placeholder({ name: 'total', ...spec }));
      args.push(...own);
      results.push(...total.add(own).map((result) => step.graph.capture(result)));
    }
  });
  const test = trace(specs, (_graph, [list]) => [
    raw.greater(raw.tensorListLength(list as Output), int32(0)),
  ]);
  const start = [...lists, ...last, ...totals.flatMap((total) => total.start())];
  const outputs = whileOfBodies(test, { graph: step.graph, specs, args, results }, start);

  const gradients = new Map<number, Gradient>();
  let at = varying.length;
  for (const i of flowing) gradients.set(i, outputs[at++] as Output);
  for (const total of totals) {
    gradients.set(total.place, total.finish(outputs.slice(at, at + total.specs.length)));
    at += total.specs.length;
  }
  return gradients;
}
