/**
 * Graph functions: a piece of graph under a name, called by datasets, cond and while. The body is built
 * in a graph of its own. What it uses of the graph around it is captured: it becomes a further input of
 * the function, and the caller passes the value.
 */
import { invalid } from '../errors/errors.js';
import { packOutputs } from '../native/buffer.js';
import { Handle } from '../native/handle.js';
import { C } from '../native/library.js';
import { checked } from '../native/status.js';
import type { DType } from '../tensor/dtype.js';
import type { PartialShape } from '../tensor/shape.js';
import type { FunctionRef } from './attributes.js';
import { currentGraph, Graph } from './graph.js';
import { type Operation, Output } from './operation.js';
import { inScope, rootScope, type Scope, scopeOf } from './scope.js';

export interface ArgumentSpec {
  readonly dtype: DType;
  readonly shape?: PartialShape;
  readonly name?: string;
}

/** The graph of a function's body. */
export class FunctionGraph extends Graph {
  readonly outer: Graph;
  /** The scope in which the function is traced. */
  readonly outerScope: Scope;
  readonly #captures = new Map<Output, Output>();
  /** Ops that must run though no result needs them. */
  readonly sideEffects: Operation[] = [];

  constructor(outer: Graph) {
    super();
    this.outer = outer;
    this.outerScope = scopeOf(outer);
    this.seed = outer.seed;
  }

  override capture(output: Output): Output {
    if (output.graph === this) return output;
    const known = this.#captures.get(output);
    if (known) return known;
    const source = this.outer.capture(output);
    const inner = this.placeholder({
      dtype: source.dtype,
      shape: source.shape,
      name: `captured/${this.#captures.size}`,
    });
    this.#captures.set(output, inner);
    return inner;
  }

  placeholder({ dtype, shape = null, name }: ArgumentSpec): Output {
    // Outside of all scopes: an argument has no device, no control input, no prefix.
    return inScope(rootScope(this), () =>
      this.op('Placeholder', [], { dtype, shape }, { name: name ?? 'arg' }).output(),
    );
  }

  /** Outer outputs that the body uses, in the order of the extra arguments. */
  get captures(): readonly { readonly outer: Output; readonly inner: Output }[] {
    return [...this.#captures].map(([outer, inner]) => ({ outer, inner }));
  }
}

export class GraphFunction implements FunctionRef {
  readonly functionName: string;
  readonly inputs: readonly ArgumentSpec[];
  readonly outputs: readonly { readonly dtype: DType; readonly shape: PartialShape }[];
  /** Outputs of the surrounding graph that a call appends to its arguments. */
  readonly captures: readonly Output[];
  readonly stateful: boolean;
  /** The body, kept for whoever differentiates it. */
  readonly body: FunctionGraph;
  readonly bodyInputs: readonly Output[];
  readonly bodyOutputs: readonly Output[];

  constructor(parts: Omit<GraphFunction, 'stateful'> & { stateful: boolean }) {
    this.functionName = parts.functionName;
    this.inputs = parts.inputs;
    this.outputs = parts.outputs;
    this.captures = parts.captures;
    this.stateful = parts.stateful;
    this.body = parts.body;
    this.bodyInputs = parts.bodyInputs;
    this.bodyOutputs = parts.bodyOutputs;
  }
}

export interface TraceOptions {
  readonly name: string;
}

/** A body that is traced but no function yet: what it captures can still grow. */
export interface TracedBody {
  readonly graph: FunctionGraph;
  readonly specs: readonly ArgumentSpec[];
  readonly args: readonly Output[];
  readonly results: readonly Output[];
}

/** Traces `body` into a function of the current graph. */
export function traceFunction(
  specs: readonly ArgumentSpec[],
  body: (...args: Output[]) => Output | readonly Output[] | undefined,
  options: TraceOptions,
): GraphFunction {
  return finishFunction(traceBody(specs, body), options);
}

export function traceBody(
  specs: readonly ArgumentSpec[],
  body: (...args: Output[]) => Output | readonly Output[] | undefined,
): TracedBody {
  const graph = new FunctionGraph(currentGraph());
  // What other rooms hang on scopes (variable scopes) holds within; names, devices and controls do not.
  return inScope({ ...rootScope(graph), extras: graph.outerScope.extras }, () => {
    const args = specs.map((spec, i) => graph.placeholder({ name: `arg_${i}`, ...spec }));
    const returned = body(...args);
    const results = returned === undefined ? [] : returned instanceof Output ? [returned] : [...returned];
    return { graph, specs, args, results: results.map((result) => graph.capture(result)) };
  });
}

export interface FinishOptions extends TraceOptions {
  /** All captures in this order, the body's own among them, so that several functions share a signature. */
  readonly captures?: readonly Output[];
  /** Gives what was captured back as further results, as the body of a loop must. */
  readonly returnCaptures?: boolean;
}

/** Makes a traced body a function of the graph around it. */
export function finishFunction(traced: TracedBody, options: FinishOptions): GraphFunction {
  const { graph, specs, args } = traced;
  const api = C();
  const captures = options.captures ?? graph.captures.map(({ outer }) => outer);
  const captured = captures.map((output) => graph.capture(output));
  const inputs = [...args, ...captured];
  const results = [...traced.results, ...(options.returnCaptures ? captured : [])];
  // A function may not return an argument, nor one tensor twice: each result is an op of its own.
  const outputs = results.map((result) => graph.op('Identity', [result], {}, { name: 'result' }).output());
  const ops = graph.operations();
  const stateful = ops.some((op) => op.type !== 'Placeholder' && graph.opDef(op.type).isStateful);
  const effects = new Set(graph.sideEffects);
  const controls = BigUint64Array.from(effects, (op) => op.pointer);
  const pointer = checked((status) =>
    api.TF_GraphToFunctionWithControlOutputs(
      graph.pointer,
      options.name.replace(/[^A-Za-z0-9_]/g, '_'),
      1,
      -1,
      null,
      inputs.length,
      packOutputs(inputs),
      outputs.length,
      packOutputs(outputs),
      null,
      controls.length,
      controls,
      null,
      null,
      null,
      status,
    ),
  );
  const handle = new Handle('function', pointer, (p) => api.TF_DeleteFunction(p));
  try {
    const functionName = api.TF_FunctionName(pointer);
    copyFunctions(graph, graph.outer);
    checked((status) => api.TF_GraphCopyFunction(graph.outer.pointer, pointer, null, status));
    return new GraphFunction({
      functionName,
      inputs: specs,
      outputs: outputs.map(({ dtype, shape }) => ({ dtype, shape })),
      captures,
      stateful,
      body: graph,
      bodyInputs: inputs,
      bodyOutputs: outputs,
    });
  } finally {
    handle.dispose();
  }
}

/** Functions that a body calls must be in the graph that calls the body. */
function copyFunctions(from: Graph, to: Graph): void {
  const api = C();
  const count = api.TF_GraphNumFunctions(from.pointer);
  if (count === 0) return;
  const pointers = new BigUint64Array(count);
  const found = checked((status) => api.TF_GraphGetFunctions(from.pointer, pointers, count, status));
  const functions = pointers.subarray(0, found);
  try {
    for (const pointer of functions) {
      checked((status) => api.TF_GraphCopyFunction(to.pointer, pointer, null, status));
    }
  } finally {
    for (const pointer of functions) api.TF_DeleteFunction(pointer);
  }
}

/** The arguments of a call: what the caller gives, then what the body captured. */
export function callArguments(fn: GraphFunction, args: readonly Output[]): Output[] {
  if (args.length !== fn.inputs.length) {
    throw invalid(
      `Function ${fn.functionName} takes ${fn.inputs.length} arguments, ${args.length} were given`,
    );
  }
  return [...args, ...fn.captures];
}
