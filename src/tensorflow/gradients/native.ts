/**
 * TensorFlow's own C++ gradients, for ops without one in TypeScript.
 *
 * The library differentiates along every path from ys to xs, and the inputs of one op may depend on each other. So the
 * op is copied into a separate graph with placeholders as inputs; the ops that the library adds there are imported back
 * with the placeholders and the copy replaced by the real tensors.
 */
import { create, toBinary } from '@bufbuild/protobuf';
import { isShoalError } from '../../base/errors/errors.js';
import { GraphDefSchema } from '../../base/proto/generated/graph_pb.js';
import { Graph } from '../graph/graph.js';
import { importGraphDef } from '../graph/import-graph-def.js';
import type { Operation, Output } from '../graph/operation.js';
import { packOutputs, unpackOutputs } from '../native/buffer.js';
import { C } from '../native/library/library.js';
import { checked } from '../native/status.js';

/** The gradients of the inputs of one op; undefined if the library has none. */
export function nativeGradient(
  op: Operation,
  grads: readonly (Output | undefined)[],
  needed: readonly boolean[],
): (Output | null)[] | undefined {
  const flowing = op.outputs.filter((_, i) => grads[i] !== undefined);
  if (!needed.includes(true) || flowing.length === 0) return op.inputs.map(() => null);
  const lone = new Graph();
  try {
    const around = (name: string, { dtype, shape }: Output) =>
      lone.op('Placeholder', [], { dtype, shape }, { name }).output();
    const inputs = op.inputs.map((input, i) => around(`input_${i}`, input));
    const incoming = grads.map((grad, i) => grad && around(`grad_${i}`, grad));
    const copy = copyOp(lone, op, inputs);
    const ys = flowing.map(({ index }) => copy.output(index));
    const xs = inputs.filter((_, i) => needed[i]);
    const dys = incoming.filter((grad) => grad !== undefined);
    const found = addGradients(lone, ys, xs, dys);
    if (!found) return undefined;
    const real = new Map<string, Output>();
    for (const [i, input] of inputs.entries()) real.set(input.name, op.inputs[i] as Output);
    for (const [i, grad] of incoming.entries()) if (grad) real.set(grad.name, grads[i] as Output);
    for (const output of copy.outputs) real.set(output.name, op.output(output.index));
    const brought = bringOver(lone, op.graph, real, found);
    let at = 0;
    return needed.map((isNeeded) => (isNeeded ? (brought[at++] ?? null) : null));
  } finally {
    lone.dispose();
  }
}

/** Copies the op with its attributes to other inputs. */
function copyOp(graph: Graph, op: Operation, inputs: readonly Output[]): Operation {
  const def = op.nodeDef();
  const node = { ...def, name: 'op', device: '', input: inputs.map(({ name }) => name) };
  const { _class: _, ...attr } = node.attr;
  const alone = create(GraphDefSchema, { node: [{ ...node, attr }], versions: { producer: 2000 } });
  const inputMap = Object.fromEntries(inputs.map((input) => [input.name, input]));
  const { operations } = importGraphDef(graph, toBinary(GraphDefSchema, alone), {
    inputMap,
    returnOperations: ['op'],
  });
  return operations[0] as Operation;
}

function addGradients(
  graph: Graph,
  ys: readonly Output[],
  xs: readonly Output[],
  dys: readonly Output[],
): (Output | null)[] | undefined {
  const results = new BigUint64Array(xs.length * 2);
  try {
    checked((status) =>
      C().TF_AddGradientsWithPrefix(
        graph.pointer,
        'native',
        packOutputs(ys),
        ys.length,
        packOutputs(xs),
        xs.length,
        packOutputs(dys),
        status,
        results,
      ),
    );
  } catch (error) {
    if (isShoalError(error, 'SHOAL_TF_NOT_FOUND') || isShoalError(error, 'SHOAL_TF_UNIMPLEMENTED'))
      return undefined;
    throw error;
  }
  return unpackOutputs(results).map(({ oper, index }) =>
    oper === 0n ? null : graph.operationAt(oper).output(index),
  );
}

/** Imports the ops added to the separate graph into the real one. */
function bringOver(
  lone: Graph,
  graph: Graph,
  real: ReadonlyMap<string, Output>,
  found: readonly (Output | null)[],
): (Output | null)[] {
  const strangers = new Set([...real.keys()].map((name) => name.slice(0, name.lastIndexOf(':'))));
  const def = lone.toGraphDef();
  // Gradient ops may have control inputs from the incoming gradients, which they use as inputs anyway.
  const isForeign = (input: string) => input.startsWith('^') && strangers.has(input.slice(1));
  const node = def.node
    .filter(({ name }) => !strangers.has(name))
    .map((one) => ({ ...one, input: one.input.filter((input) => !isForeign(input)) }));
  const added = { ...def, node };
  const wanted = found.filter((output): output is Output => output !== null && !real.has(output.name));
  // The prefix is unique to this import: later names cannot collide.
  const { outputs } = importGraphDef(graph, toBinary(GraphDefSchema, added), {
    prefix: graph.uniqueName('native'),
    inputMap: Object.fromEntries(real),
    returnOutputs: wanted.map(({ name }) => name),
  });
  let at = 0;
  return found.map((output) => output && (real.get(output.name) ?? (outputs[at++] as Output)));
}
