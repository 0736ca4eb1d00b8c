/**
 * Graph functions: named subgraphs, called by datasets, cond and while. The body is built in a graph of its own.
 * Outputs of the enclosing graph that it uses are captured: they become additional inputs of the function.
 */
import { invalid } from '../../base/errors/errors.js';
import { packOutputs } from '../native/buffer.js';
import { Handle } from '../native/handle.js';
import { C } from '../native/library/library.js';
import { checked } from '../native/status.js';
import type { DType } from '../tensor/dtype.js';
import type { PartialShape } from '../tensor/shape.js';
import type { FunctionRef } from './attributes.js';
import { currentGraph, Graph } from './graph.js';
import { type Operation, Output } from './operation.js';
import { inScope, rootScope, type Scope, scopeOf } from './scope.js';

export interface ArgumentSpec {
  readonly dtype: DType;
  /** The static shape; default: unknown. */
  readonly shape?: PartialShape;
  /** The name of the argument's placeholder; default: `arg`. */
  readonly name?: string;
}

/** The graph of a function's body. */
export class FunctionGraph extends Graph {
  readonly outer: Graph;
  /** The scope in which the function is traced. */
  readonly outerScope: Scope;
  readonly #captures = new Map<Output, Output>();
  /** Ops that must run although no result depends on them. */
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
    // Outside all scopes: an argument has no device, control input or prefix.
    return inScope(rootScope(this), () =>
      this.op('Placeholder', [], { dtype, shape }, { name: name ?? 'arg' }).output(),
    );
  }

  /** Captured outer outputs, in the order of the additional arguments. */
  get captures(): readonly { readonly outer: Output; readonly inner: Output }[] {
    return [...this.#captures].map(([outer, inner]) => ({ outer, inner }));
  }
}

export class GraphFunction implements FunctionRef {
  readonly functionName: string;
  readonly inputs: readonly ArgumentSpec[];
  readonly outputs: readonly { readonly dtype: DType; readonly shape: PartialShape }[];
  /** Outputs of the enclosing graph that a call appends to its arguments. */
  readonly captures: readonly Output[];
  readonly stateful: boolean;
  /** The body, kept for differentiation. @internal */
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

/** A traced body that is not a function yet: it may still gain captures. */
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
  // Extras of the scope (such as variable scopes) apply inside; names, devices and control inputs do not.
  return inScope({ ...rootScope(graph), extras: graph.outerScope.extras }, () => {
    const args = specs.map((spec, i) => graph.placeholder({ name: `arg_${i}`, ...spec }));
    const returned = body(...args);
    const results = returned === undefined ? [] : returned instanceof Output ? [returned] : [...returned];
    return { graph, specs, args, results: results.map((result) => graph.capture(result)) };
  });
}

export interface FunctionOptions extends TraceOptions {
  /** All captures in order, including the body's own, so that several functions share a signature. */
  readonly captures?: readonly Output[];
  /** Returns the captures as additional results, as the body of a loop must. Default: false. */
  readonly returnCaptures?: boolean;
}

/** Converts a traced body to a function of the enclosing graph. */
export function finishFunction(traced: TracedBody, options: FunctionOptions): GraphFunction {
  const { graph, specs, args } = traced;
  const api = C();
  const captures = options.captures ?? graph.captures.map(({ outer }) => outer);
  const captured = captures.map((output) => graph.capture(output));
  const inputs = [...args, ...captured];
  const results = [...traced.results, ...(options.returnCaptures ? captured : [])];
  // A function must not return an argument or the same tensor twice: each result is a separate op.
  const outputs = results.map((result) => graph.op('Identity', [result], {}, { name: 'result' }).output());
  const ops = graph.operations();
  const stateful = ops.some((op) => op.type !== 'Placeholder' && graph.opDef(op.type).isStateful);
  const effects = new Set(graph.sideEffects);
  const handle = toFunction(graph, { name: options.name, inputs, outputs, controls: [...effects] });
  const { pointer } = handle;
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

export interface FunctionBody {
  readonly name: string;
  /** The ops of the body; default: all ops of the graph. */
  readonly ops?: readonly Operation[];
  readonly inputs?: readonly Output[];
  readonly outputs: readonly Output[];
  /** Ops that each call runs. */
  readonly controls?: readonly Operation[];
}

/** Converts ops of a graph to a function of TensorFlow. A unique suffix is appended to the name. */
export function toFunction(
  graph: Graph,
  { name, ops, inputs = [], outputs, controls = [] }: FunctionBody,
): Handle {
  const api = C();
  const pointersOf = (list: readonly Operation[]) => BigUint64Array.from(list, (op) => op.pointer);
  const pointer = checked((status) =>
    api.TF_GraphToFunctionWithControlOutputs(
      graph.pointer,
      name.replace(/[^A-Za-z0-9_]/g, '_'),
      1,
      ops?.length ?? -1,
      ops ? pointersOf(ops) : null,
      inputs.length,
      packOutputs(inputs),
      outputs.length,
      packOutputs(outputs),
      null,
      controls.length,
      pointersOf(controls),
      null,
      null,
      null,
      status,
    ),
  );
  return new Handle('function', pointer, (p) => api.TF_DeleteFunction(p));
}

/** Functions called by a body must exist in the graph that calls the body. */
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

/** The arguments of a call: the caller's, then the captures. */
export function callArguments(fn: GraphFunction, args: readonly Output[]): Output[] {
  if (args.length !== fn.inputs.length) {
    throw invalid(`Function ${fn.functionName} takes ${fn.inputs.length} arguments; got ${args.length}`);
  }
  return [...args, ...fn.captures];
}
