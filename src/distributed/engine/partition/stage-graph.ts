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

export function buildStageGraph(options: StageGraphOptions): StageGraph {
  return new StageGraphBuilder(options).build();
}

/** A tensor from outside, by the placeholder that is fed and the node that has its value. */
interface Argument {
  readonly name: string;
  readonly entry: Incoming;
  readonly placeholder: string;
}

class StageGraphBuilder {
  readonly #options: StageGraphOptions;
  readonly #own: ReadonlySet<Operation>;
  readonly #nodes: NodeDef[] = [];
  readonly #copied = new Set<Operation>();
  readonly #used = new Set<Operation>();
  readonly #arguments = new Map<Output, Argument>();
  readonly #names: Set<string>;

  constructor(options: StageGraphOptions) {
    this.#options = options;
    this.#own = new Set(options.ops);
    // Any of them may be copied into the stage.
    this.#names = new Set(options.needed.ops.map(({ name }) => name));
  }

  build(): StageGraph {
    const { ops, exported, needed, source, versions } = this.#options;
    for (const op of ops) this.#add(op, needed.waitsFor(op));
    const outputs = exported.map((one, at) => this.#export(one, at));
    const targets = ops.filter((op) => !this.#used.has(op)).map(({ name }) => name);
    const library = functionsOf(this.#nodes, source);
    const graph = create(GraphDefSchema, { node: this.#nodes, versions, library });
    const arguments_ = [...this.#arguments.values()];
    return {
      bytes: toBinary(GraphDefSchema, graph),
      incoming: arguments_.map(({ entry }) => entry),
      inputs: arguments_.map(({ placeholder }) => placeholder),
      outputs,
      targets,
    };
  }

  #add(op: Operation, controls: Iterable<Operation>): void {
    const def = localNode(op);
    const inputs = op.inputs.map((input) => this.#inputName(input, op));
    const after = Array.from(controls).filter((control) => this.#own.has(control));
    for (const control of after) this.#used.add(control);
    this.#nodes.push({ ...def, input: [...inputs, ...after.map(({ name }) => `^${name}`)] });
  }

  #copy(op: Operation): void {
    if (this.#copied.has(op)) return;
    this.#copied.add(op);
    this.#add(op, []);
  }

  #inputName(input: Output, consumer: Operation): string {
    const { needed, task, taskOf } = this.#options;
    const { op, index } = input;
    if (!needed.isFed(input)) {
      if (this.#own.has(op)) {
        this.#used.add(op);
        return `${op.name}:${index}`;
      }
      if (needed.isCopied(op)) {
        if (isHandle(op) && taskOf(op) !== task)
          throw cannotDivide(consumer, `it reads '${op.name}', which is on ${taskOf(op)}`);
        this.#copy(op);
        return `${op.name}:${index}`;
      }
      if (input.dtype !== 'resource' && isHandleEdge(input, consumer))
        throw cannotDivide(consumer, `it uses a reference to '${op.name}' from another stage`);
    }
    return this.#argument(input, consumer);
  }

  /** The name of the node with the value of a tensor from outside. */
  #argument(input: Output, consumer: Operation): string {
    const known = this.#arguments.get(input);
    if (known) return known.name;
    const at = this.#arguments.size;
    const entry = this.#options.incoming(input, consumer);
    const placeholder = this.#fresh(`input.${at}`);
    const { dtype, shape } = entry.serialized ? { dtype: 'string' as const, shape: [] } : input;
    const add = (name: string, op: string, inputs: string[], attr: NodeDef['attr']) => {
      this.#nodes.push(node(name, op, inputs, attr));
      return name;
    };
    add(placeholder, 'Placeholder', [], { dtype: typeAttr(dtypeNumber(dtype)), shape: shapeAttr(shape) });
    let name = placeholder;
    if (entry.serialized) {
      const attr = { out_type: typeAttr(dtypeNumber(input.dtype)) };
      name = add(this.#fresh(`parsed.${at}`), 'ParseTensor', [placeholder], attr);
    } else if (input.dtype === 'string') {
      // The memory of a fed string is freed after the run, but queues and tables keep what they get: they need a copy.
      name = add(this.#fresh(`owned.${at}`), 'StringJoin', [placeholder], { N: intAttr(1) });
    }
    this.#arguments.set(input, { name, entry, placeholder });
    return name;
  }

  /** The name of an output as other stages or the caller get it. */
  #export({ output, serialized }: Incoming, at: number): string {
    this.#used.add(output.op);
    if (!serialized) return output.name;
    const name = this.#fresh(`serialized.${at}`);
    const attr = { T: typeAttr(dtypeNumber(output.dtype)) };
    this.#nodes.push(node(name, 'SerializeTensor', [output.name], attr));
    return `${name}:0`;
  }

  #fresh(base: string): string {
    let name = base;
    for (let n = 1; this.#names.has(name); n++) name = `${base}.${n}`;
    this.#names.add(name);
    return name;
  }
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
