/**
 * Prunes a graph to what an export needs: what its signatures compute, and the ops that are kept by name (init ops,
 * initializers, table initializers) with all that they need. Gradients, optimizers, input pipelines and summaries are
 * removed, so that the graph loads where their kernels, files and devices do not exist.
 *
 * A signature may be fed at any tensor. Where such a tensor comes from training input (a queue, an iterator), a
 * placeholder takes its place in the export.
 */
import { create } from '@bufbuild/protobuf';
import { invalid } from '../../../base/errors/errors.js';
import {
  type AttrValue,
  AttrValueSchema,
  type GraphDef,
  type NodeDef,
  NodeDefSchema,
  type TensorShapeProto,
} from '../../../base/proto/generated/graph_pb.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { dtypeNumber } from '../../../tensorflow/tensor/dtype.js';
import type { SignatureDefMap } from '../signatures/check-signatures.js';
import { buildTensorInfo, namesOf } from '../signatures/signature-def.js';
import { pruneFunctions } from './prune-functions.js';

export interface PruneRequest {
  readonly graph: Graph;
  readonly def: GraphDef;
  readonly signatures: SignatureDefMap;
  /** Names of nodes that stay, with all that they need, whatever the signatures compute. */
  readonly keep: readonly string[];
}

export interface Pruned {
  readonly def: GraphDef;
  /** Tensors that signatures are fed at under another name in the export. */
  readonly renamed: ReadonlyMap<string, string>;
}

/** Ops that read or hold the input of training, which does not exist in serving. */
const TRAINING_INPUT =
  /^(Iterator|OneShotIterator|MultiDeviceIterator|AnonymousIterator|QueueDequeue|Reader|WholeFileReader|PyFunc)|Queue(V2)?$|Dequeue/;

export interface Edge {
  readonly node: string;
  /** -1 for a control edge. */
  readonly port: number;
}

export function edgeOf(input: string): Edge {
  if (input.startsWith('^')) return { node: input.slice(1), port: -1 };
  const at = input.lastIndexOf(':');
  return at < 0 ? { node: input, port: 0 } : { node: input.slice(0, at), port: Number(input.slice(at + 1)) };
}

export const tensorName = ({ node, port }: Edge): string => `${node}:${port}`;

/** All nodes that `roots` need, themselves included, stopping at tensors of `fed`. */
export function reach(
  nodes: ReadonlyMap<string, NodeDef>,
  roots: Iterable<string>,
  fed: ReadonlySet<string> = new Set(),
): Set<string> {
  const seen = new Set(roots);
  for (const name of seen) {
    for (const input of nodes.get(name)?.input ?? []) {
      const edge = edgeOf(input);
      if (!fed.has(tensorName(edge))) seen.add(edge.node);
    }
  }
  return seen;
}

export const nodesOf = (def: GraphDef): Map<string, NodeDef> =>
  new Map(def.node.map((node) => [node.name, node]));

/** The nodes that a signature computes: its outputs and what they need, down to its inputs. */
export function reachOfSignature(
  nodes: ReadonlyMap<string, NodeDef>,
  signature: SignatureDefMap[string],
): Set<string> {
  const fed = new Set(Object.values(signature.inputs).flatMap(namesOf).map(canonical));
  const roots = Object.values(signature.outputs)
    .flatMap(namesOf)
    .filter((name) => !fed.has(canonical(name)))
    .map((name) => edgeOf(name).node);
  return reach(nodes, roots, fed);
}

const canonical = (name: string): string => tensorName(edgeOf(name));

export function pruneGraph({ graph, def, signatures, keep }: PruneRequest): Pruned {
  const nodes = nodesOf(def);
  const needed = reach(nodes, keep);
  for (const [name, signature] of Object.entries(signatures)) {
    for (const node of reachOfSignature(nodes, signature)) {
      const op = nodes.get(node)?.op ?? '';
      if (TRAINING_INPUT.test(op)) throw needsTrainingInput(name, node, op);
      needed.add(node);
    }
  }
  const fed = new Set(
    Object.values(signatures).flatMap(({ inputs }) => Object.values(inputs).flatMap(namesOf).map(canonical)),
  );
  const { placeholders, renamed } = replaceFed(graph, nodes, fed, needed);
  const kept = def.node
    .filter(({ name }) => needed.has(name) && !placeholders.some((other) => other.name === name))
    .map((node) =>
      create(NodeDefSchema, { ...node, input: node.input.map((input) => rewired(input, renamed)) }),
    );
  const result = [...placeholders, ...kept];
  dropColocation(result);
  return { def: { ...def, node: result, library: pruneFunctions(def.library, result) }, renamed };
}

/** Keeps what the fed tensors need, or puts placeholders in their place where that is training input. */
function replaceFed(
  graph: Graph,
  nodes: ReadonlyMap<string, NodeDef>,
  fed: Iterable<string>,
  needed: Set<string>,
): { placeholders: NodeDef[]; renamed: Map<string, string> } {
  const placeholders: NodeDef[] = [];
  const renamed = new Map<string, string>();
  const isServed = new Set(needed);
  for (const tensor of fed) {
    const { node, port } = edgeOf(tensor);
    const upstream = reach(nodes, [node]);
    if (![...upstream].some((name) => TRAINING_INPUT.test(nodes.get(name)?.op ?? ''))) {
      for (const name of upstream) needed.add(name);
      continue;
    }
    const isFree = port === 0 && !isServed.has(node);
    const name = isFree ? node : unusedName(nodes, `${node}_input_${port}`);
    placeholders.push(placeholderNode(graph, tensor, name));
    needed.add(name);
    if (name !== node) renamed.set(tensor, `${name}:0`);
  }
  return { placeholders, renamed };
}

function unusedName(nodes: ReadonlyMap<string, NodeDef>, base: string): string {
  let name = base;
  for (let i = 1; nodes.has(name); i++) name = `${base}_${i}`;
  return name;
}

function placeholderNode(graph: Graph, tensor: string, name: string): NodeDef {
  const output = graph.output(tensor);
  const shape = buildTensorInfo(output).tensorShape as TensorShapeProto;
  const attr = (value: AttrValue['value']): AttrValue => create(AttrValueSchema, { value });
  return create(NodeDefSchema, {
    name,
    op: 'Placeholder',
    attr: {
      dtype: attr({ case: 'type', value: dtypeNumber(output.dtype) }),
      shape: attr({ case: 'shape', value: shape }),
    },
  });
}

function rewired(input: string, renamed: ReadonlyMap<string, string>): string {
  if (input.startsWith('^')) return input;
  return renamed.get(canonical(input)) ?? input;
}

/** TensorFlow rejects nodes that are colocated with missing nodes. */
function dropColocation(nodes: readonly NodeDef[]): void {
  const names = new Set(nodes.map(({ name }) => name));
  for (const { attr } of nodes) {
    const groups = attr._class?.value;
    if (groups?.case !== 'list') continue;
    const s = groups.value.s.filter((group) => {
      const text = Buffer.from(group).toString();
      return !text.startsWith('loc:@') || names.has(text.slice(5));
    });
    if (s.length === 0) delete attr._class;
    else if (s.length < groups.value.s.length)
      attr._class = create(AttrValueSchema, { value: { case: 'list', value: { s } } });
  }
}

function needsTrainingInput(signature: string, node: string, op: string): Error {
  return invalid(`The signature '${signature}' needs '${node}' (${op}), which is input of training`, {
    op: node,
    hint: 'Make the tensor that it feeds to the model an input of the signature.',
  });
}
