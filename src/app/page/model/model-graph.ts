/** A graph as the page describes it: the ops of a graph in memory, or those of a stored GraphDef. */
import { setImmediate } from 'node:timers/promises';
import type { GraphDef } from '../../../base/proto/generated/graph_pb.js';
import { fromProto, shapeFromProto } from '../../../tensorflow/graph/attributes.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation } from '../../../tensorflow/graph/operation.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';

export interface TensorRef {
  readonly op: string;
  readonly index: number;
}

export interface ModelNode {
  readonly name: string;
  readonly type: string;
  readonly device: string;
  /** The tensors that it takes; not what it only waits for. */
  readonly inputs: readonly TensorRef[];
  /** Undefined if it is no variable. */
  readonly variable: { readonly dtype: DType; readonly shape: PartialShape } | undefined;
}

export interface PageGraph {
  readonly nodes: readonly ModelNode[];
  /** The shape of a tensor; null if it is not known. */
  shapeOf(tensor: TensorRef): PartialShape;
}

/** Ops between which other work gets its turn: reading 1,000 takes about 10 ms. */
const AT_ONCE = 1000;

const isVariable = (type: string): boolean =>
  type === 'VarHandleOp' || type === 'VariableV2' || type === 'Variable';

export async function modelOfGraph(graph: Graph): Promise<PageGraph> {
  const ops = new Map<string, Operation>();
  const nodes: ModelNode[] = [];
  for (const op of graph.operations()) {
    ops.set(op.name, op);
    nodes.push(nodeOf(op));
    if (nodes.length % AT_ONCE === 0) await setImmediate();
  }
  return { nodes, shapeOf: ({ op, index }) => ops.get(op)?.outputs[index]?.shape ?? null };
}

function nodeOf(op: Operation): ModelNode {
  const { name, type, device } = op;
  return {
    ...{ name, type, device },
    inputs: op.inputs.map((input) => ({ op: input.op.name, index: input.index })),
    variable: isVariable(type)
      ? { dtype: op.attr('dtype') as DType, shape: (op.attr('shape') ?? null) as PartialShape }
      : undefined,
  };
}

/** A stored graph has no shapes but those of its variables and placeholders. */
export function modelOfGraphDef({ node }: GraphDef): PageGraph {
  const shapes = new Map<string, PartialShape>();
  const nodes = node.map(({ name, op: type, device, input, attr }): ModelNode => {
    const { shape, dtype } = attr;
    const known = shape?.value.case === 'shape' ? shapeFromProto(shape.value.value) : null;
    shapes.set(name, known);
    return {
      ...{ name, type, device },
      inputs: input.filter((one) => !one.startsWith('^')).map(refOf),
      variable: isVariable(type) && dtype ? { dtype: fromProto(dtype) as DType, shape: known } : undefined,
    };
  });
  return { nodes, shapeOf: ({ op, index }) => (index === 0 ? (shapes.get(op) ?? null) : null) };
}

function refOf(input: string): TensorRef {
  const [, op = input, index = '0'] = /^(.*):(\d+)$/.exec(input) ?? [];
  return { op, index: Number(index) };
}
