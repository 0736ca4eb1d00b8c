/** Builds the graph of one stage: its ops, copies of the constants and handles they use, and placeholders. */
import { create, toBinary } from '@bufbuild/protobuf';
import {
  type AttrValue,
  AttrValueSchema,
  type FunctionDefLibrary,
  FunctionDefLibrarySchema,
  type GraphDef,
  GraphDefSchema,
  type NameAttrList,
  type NodeDef,
  NodeDefSchema,
} from '../../../base/proto/generated/graph_pb.js';
import { formatDevice, parseDevice } from '../../../tensorflow/graph/device.js';
import { isRegistered } from '../../../tensorflow/graph/op-def.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { dtypeNumber } from '../../../tensorflow/tensor/dtype.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';
import type { NeededOps } from './needed.js';
import { isHandle, isHandleEdge } from './op-kinds.js';
import { cannotDivide } from './units.js';

/** A tensor that a stage gets from outside. */
export interface Incoming {
  readonly output: Output;
  /** It is sent as bytes, because its type has no plain encoding. */
  readonly serialized: boolean;
}

export interface StageGraph {
  readonly bytes: Uint8Array;
  readonly incoming: readonly Incoming[];
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly targets: readonly string[];
}

export interface StageGraphOptions {
  readonly ops: readonly Operation[];
  readonly task: string;
  readonly taskOf: (op: Operation) => string | undefined;
  /** Outputs that other stages or the caller need. */
  readonly exported: readonly Incoming[];
  /** Whether a tensor from elsewhere is serialized; throws if it cannot be sent. */
  readonly incoming: (output: Output, consumer: Operation) => Incoming;
  readonly needed: NeededOps;
  /** The complete graph, which is read only if the stage calls functions. */
  readonly source: () => GraphDef;
  readonly versions: GraphDef['versions'];
}

export function buildStageGraph(parts: StageGraphOptions): StageGraph {
  const { ops, exported, needed } = parts;
  const own = new Set(ops);
  const nodes: NodeDef[] = [];
  const copied = new Set<Operation>();
  const used = new Set<Operation>();
  const incoming = new Map<
    Output,
    { readonly name: string; readonly entry: Incoming; readonly placeholder: string }
  >();
  // Any of them may be copied into the stage.
  const names = new Set(needed.ops.map(({ name }) => name));
  const fresh = (base: string) => {
    let name = base;
    for (let n = 1; names.has(name); n++) name = `${base}.${n}`;
    names.add(name);
    return name;
  };

  const inputName = (input: Output, consumer: Operation): string => {
    const { op, index } = input;
    if (!needed.isFed(input)) {
      if (own.has(op)) {
        used.add(op);
        return `${op.name}:${index}`;
      }
      if (needed.isCopied(op)) {
        if (isHandle(op) && parts.taskOf(op) !== parts.task)
          throw cannotDivide(consumer, `it reads '${op.name}', which is on ${parts.taskOf(op)}`);
        copy(op);
        return `${op.name}:${index}`;
      }
      if (input.dtype !== 'resource' && isHandleEdge(input, consumer))
        throw cannotDivide(consumer, `it uses a reference to '${op.name}' from another stage`);
    }
    return argument(input, consumer);
  };

  const argument = (input: Output, consumer: Operation): string => {
    const known = incoming.get(input);
    if (known) return known.name;
    const at = incoming.size;
    const entry = parts.incoming(input, consumer);
    const placeholder = fresh(`input.${at}`);
    const { dtype, shape } = entry.serialized ? { dtype: 'string' as const, shape: [] } : input;
    nodes.push(
      node(placeholder, 'Placeholder', [], { dtype: typeAttr(dtypeNumber(dtype)), shape: shapeAttr(shape) }),
    );
    let name = placeholder;
    if (entry.serialized) {
      name = fresh(`parsed.${at}`);
      nodes.push(node(name, 'ParseTensor', [placeholder], { out_type: typeAttr(dtypeNumber(input.dtype)) }));
    } else if (input.dtype === 'string') {
      // The memory of a fed string is freed after the run, but queues and tables keep what they get: they need a copy.
      name = fresh(`owned.${at}`);
      nodes.push(node(name, 'StringJoin', [placeholder], { N: intAttr(1) }));
    }
    incoming.set(input, { name, entry, placeholder });
    return name;
  };

  const add = (op: Operation, controls: Iterable<Operation>): void => {
    const def = localNode(op);
    const inputs = op.inputs.map((input) => inputName(input, op));
    const after = Array.from(controls).filter((control) => own.has(control));
    for (const control of after) used.add(control);
    nodes.push({ ...def, input: [...inputs, ...after.map(({ name }) => `^${name}`)] });
  };

  const copy = (op: Operation): void => {
    if (copied.has(op)) return;
    copied.add(op);
    add(op, []);
  };

  for (const op of ops) add(op, needed.waitsFor(op));

  const outputs = exported.map(({ output, serialized }, at) => {
    used.add(output.op);
    if (!serialized) return output.name;
    const name = fresh(`serialized.${at}`);
    nodes.push(node(name, 'SerializeTensor', [output.name], { T: typeAttr(dtypeNumber(output.dtype)) }));
    return `${name}:0`;
  });
  const targets = ops.filter((op) => !used.has(op)).map(({ name }) => name);
  const library = functionsOf(nodes, parts.source);
  const graph = create(GraphDefSchema, {
    node: nodes,
    versions: parts.versions,
    library,
  });
  const arguments_ = [...incoming.values()];
  return {
    bytes: toBinary(GraphDefSchema, graph),
    incoming: arguments_.map(({ entry }) => entry),
    inputs: arguments_.map(({ placeholder }) => placeholder),
    outputs,
    targets,
  };
}

/** The op without its place in the cluster, and with the name of its resource spelled out. */
function localNode(op: Operation): NodeDef {
  const def = op.nodeDef();
  const { _class: _, ...attr } = def.attr;
  // A variable without a shared name has the empty name.
  if (isHandle(op) && op.type !== 'VarHandleOp')
    attr.shared_name = create(AttrValueSchema, { value: { case: 's', value: resourceName(op, def) } });
  return { ...def, device: localDevice(def.device), attr: inOrder(attr, canonical) };
}

const encoder = new TextEncoder();

/** TensorFlow names a resource without a shared name after its op, whose name differs between stages. */
function resourceName(op: Operation, def: NodeDef): Uint8Array {
  const shared = def.attr.shared_name?.value;
  return shared?.case === 's' && shared.value.length > 0 ? shared.value : encoder.encode(op.name);
}

/** The part of a device name that is valid in a session of any task. */
function localDevice(name: string): string {
  if (name === '') return '';
  const { device } = parseDevice(name);
  return device === undefined ? '' : formatDevice({ device });
}

/**
 * TensorFlow writes the entries of maps in any order. Sorted, the same stage has the same bytes on every task, so that
 * workers share it.
 */
function inOrder<T>(
  map: Readonly<Record<string, T>>,
  each: (value: T) => T = (value) => value,
): Record<string, T> {
  return Object.fromEntries(
    Object.keys(map)
      .sort()
      .map((key) => [key, each(map[key] as T)]),
  );
}

function canonical(attr: AttrValue): AttrValue {
  const { value } = attr;
  const call = (def: NameAttrList): NameAttrList => ({ ...def, attr: inOrder(def.attr, canonical) });
  if (value.case === 'func') return { ...attr, value: { case: 'func', value: call(value.value) } };
  if (value.case !== 'list' || value.value.func.length === 0) return attr;
  return { ...attr, value: { case: 'list', value: { ...value.value, func: value.value.func.map(call) } } };
}

function node(name: string, op: string, input: string[], attr: NodeDef['attr']): NodeDef {
  return create(NodeDefSchema, { name, op, input, attr });
}

const intAttr = (value: number) => create(AttrValueSchema, { value: { case: 'i', value: BigInt(value) } });
const typeAttr = (number: number) => create(AttrValueSchema, { value: { case: 'type', value: number } });

function shapeAttr(shape: PartialShape) {
  const value =
    shape === null
      ? { unknownRank: true }
      : { dim: shape.map((dim) => ({ size: BigInt(dim ?? -1) })), unknownRank: false };
  return create(AttrValueSchema, { value: { case: 'shape', value } });
}

/** The functions that the nodes call, directly or through other functions. */
function functionsOf(nodes: readonly NodeDef[], source: () => GraphDef): FunctionDefLibrary | undefined {
  if (!nodes.some((def) => calledBy(def).length > 0 || !isRegistered(def.op))) return undefined;
  const { library } = source();
  if (!library) return undefined;
  const byName = new Map(library.function.map((def) => [def.signature?.name ?? '', def]));
  const gradients = new Map(library.gradient.map((def) => [def.functionName, def]));
  const found = new Set<string>();
  const add = (name: string) => {
    if (byName.has(name)) found.add(name);
  };
  const addCalls = (def: NodeDef) => {
    for (const name of [def.op, ...calledBy(def)]) add(name);
  };
  nodes.forEach(addCalls);
  for (const name of found) {
    byName.get(name)?.nodeDef.forEach(addCalls);
    const gradient = gradients.get(name);
    if (gradient) add(gradient.gradientFunc);
  }
  if (found.size === 0) return undefined;
  return create(FunctionDefLibrarySchema, {
    function: library.function
      .filter((def) => found.has(def.signature?.name ?? ''))
      .map((def) => ({
        ...def,
        attr: inOrder(def.attr, canonical),
        argAttr: inOrder(def.argAttr, (one) => ({ ...one, attr: inOrder(one.attr, canonical) })),
        ret: inOrder(def.ret),
        controlRet: inOrder(def.controlRet),
        nodeDef: def.nodeDef.map((inner) => ({
          ...inner,
          device: localDevice(inner.device),
          attr: inOrder(inner.attr, canonical),
        })),
      })),
    gradient: library.gradient.filter(({ functionName }) => found.has(functionName)),
  });
}

function calledBy({ attr }: NodeDef): string[] {
  return Object.values(attr).flatMap(({ value }) => {
    if (value.case === 'func') return [value.value.name];
    if (value.case === 'list') return value.value.func.map(({ name }) => name);
    return [];
  });
}
