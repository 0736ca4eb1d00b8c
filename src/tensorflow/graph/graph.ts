/**
 * A graph of operations. `graph.op` creates any op registered in the library; the high-level API is built on it.
 * Several graphs may exist at once; `asDefault` selects the graph for ops without inputs.
 */
import { inspect } from 'node:util';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { invalid } from '../../base/errors/errors.js';
import { type GraphDef, GraphDefSchema, type OpDef } from '../../base/proto/generated/graph_pb.js';
import { fillBuffer, packOutputs } from '../native/buffer.js';
import { Handle } from '../native/handle.js';
import type { Pointer } from '../native/library/c-api.js';
import { C } from '../native/library/library.js';
import { giveStatus, takeStatus, throwStatus } from '../native/status.js';
import { type Attrs, attrSetter } from './attributes.js';
import { type DeviceScope, resolveDevice } from './device.js';
import { type ImportOptions, type ImportResult, importGraphDef } from './import-graph-def.js';
import { checkOpName, NameTable } from './names.js';
import { opDef } from './op-def.js';
import { Operation, type Output } from './operation.js';
import { activeScope, inScope, type Scope, scopeOf } from './scope.js';

// Operation and Output know no more of their graph than they need; users of an op find the whole Graph.
declare module './operation.js' {
  interface OwningGraph extends Graph {}
}

export type OpInput = Output | readonly Output[];

export interface OpOptions {
  /** The op's name within the current name scope; numbered if already taken. Default: the op type. */
  readonly name?: string | null;
  /** The device of the op, merged with the device scopes; default: that of the scopes. */
  readonly device?: string | null;
  /** Ops that run before this one, in addition to those of the scopes; default: none. */
  readonly controlInputs?: readonly Operation[] | null;
}

export class Graph {
  readonly #handle: Handle;
  readonly #names = new NameTable();
  readonly #operations = new Map<Pointer, Operation>();
  readonly #collections = new Map<string, unknown[]>();
  /** Graph-level seed, as tf.set_random_seed; null if not set. */
  seed: number | null = null;
  #opCount = 0;

  constructor() {
    this.#handle = new Handle('graph', C().TF_NewGraph(), (pointer) => C().TF_DeleteGraph(pointer));
  }

  /** @internal */
  get pointer(): Pointer {
    return this.#handle.pointer;
  }

  /** Throws if the graph was disposed. */
  assertAlive(): void {
    void this.#handle.pointer;
  }

  /** The number of ops created through this object: TensorFlow 1 derives op seeds from it. */
  get opCount(): number {
    return this.#opCount;
  }

  /** Adds one op. `inputs` in the order of the op's definition, a list input as an array. */
  op(type: string, inputs: readonly OpInput[] = [], attrs: Attrs = {}, options: OpOptions = {}): Operation {
    const def = this.opDef(type);
    const scope = scopeOf(this);
    const own = inputs.map((input) => this.#ownInput(input));
    this.#checkArity(def, own);
    const setters = Object.entries(attrs).flatMap(([name, value]) => {
      if (value === undefined) return [];
      const attr = def.attr.find((candidate) => candidate.name === name);
      // As in Python, None is the default; of a shape it is an unknown rank.
      if (value === null && attr?.defaultValue && attr.type !== 'shape') return [];
      if (!attr && !name.startsWith('_')) {
        const known = def.attr.map((candidate) => candidate.name).join(', ') || 'none';
        throw invalid(`Op ${type} has no attribute '${name}'; valid attributes: ${known}`, { op: type });
      }
      return [attrSetter(type, name, attr?.type ?? guessAttrType(value), value)];
    });
    const base = options.name ?? type;
    // A name that ends with a slash is used as is, ignoring the name scope.
    const name = base.endsWith('/') ? base.slice(0, -1) : this.#names.unique(scope.prefix + base);
    checkOpName(name);
    if (base.endsWith('/')) this.#names.reserve(name);
    const colocated = scope.colocation;
    const device = colocated
      ? (options.device ?? colocated.device)
      : resolveDevice(scope.devices, { type, name, attrs }, options.device ?? '');
    const controls = [...scope.controlInputs, ...(options.controlInputs ?? [])];
    for (const control of controls) this.#assertOwn(control);

    const api = C();
    const description = api.TF_NewOperation(this.pointer, type, name);
    if (device) api.TF_SetDevice(description, device);
    for (const input of own) {
      if (Array.isArray(input)) api.TF_AddInputList(description, packOutputs(input), input.length);
      else api.TF_AddInput(description, input as Output);
    }
    for (const control of new Set(controls)) api.TF_AddControlInput(description, control.pointer);
    if (colocated) api.TF_ColocateWith(description, colocated.pointer);
    let failed: { error: unknown } | undefined;
    try {
      for (const set of setters) set(description);
    } catch (error) {
      failed = { error };
    }
    // Finishing frees the description, on success and on failure.
    const status = takeStatus();
    let pointer: Pointer;
    try {
      pointer = api.TF_FinishOperation(description, status);
      if (failed) throw failed.error;
      throwStatus(status, { op: name });
    } finally {
      giveStatus(status);
    }
    this.#opCount += 1;
    return this.#remember(new Operation(this, pointer, name, type));
  }

  /** The definition of an op type or of a function of this graph. */
  opDef(type: string): OpDef {
    return opDef(this.pointer, type);
  }

  #ownInput(input: OpInput): OpInput {
    if (Array.isArray(input)) return input.map((one) => this.capture(one as Output));
    return this.capture(input as Output);
  }

  /** An output as seen from this graph. A function's graph captures outputs of outer graphs as inputs. */
  capture(output: Output): Output {
    if (output.graph !== this) {
      throw invalid(`${output} belongs to another graph`, {
        hint: 'Build all ops of a model in one graph: graph.asDefault(() => …).',
      });
    }
    return output;
  }

  #assertOwn(op: Operation): void {
    if (op.graph !== this) throw invalid(`${op} belongs to another graph`);
  }

  #checkArity(def: OpDef, inputs: readonly OpInput[]): void {
    if (inputs.length === def.inputArg.length) return;
    const names = def.inputArg.map((arg) => arg.name).join(', ') || 'none';
    throw invalid(`Op ${def.name} takes ${def.inputArg.length} inputs (${names}); got ${inputs.length}`);
  }

  #remember(op: Operation): Operation {
    this.#operations.set(op.pointer, op);
    return op;
  }

  /** The Operation of a native node. @internal */
  operationAt(pointer: Pointer): Operation {
    return this.#operations.get(pointer) ?? this.#remember(new Operation(this, pointer));
  }

  /** The op of this name; throws if it does not exist. */
  operation(name: string): Operation {
    const pointer = C().TF_GraphOperationByName(this.pointer, name);
    if (!pointer) throw invalid(`The graph has no op named '${name}'`);
    return this.operationAt(pointer);
  }

  hasOperation(name: string): boolean {
    return Boolean(C().TF_GraphOperationByName(this.pointer, name));
  }

  /** A tensor by name: `op:0`; `op` alone means its first output. */
  output(name: string): Output {
    const match = /^(.+?)(?::(\d+))?$/.exec(name);
    if (!match) throw invalid(`'${name}' is not a tensor name; use the form 'op:0'`);
    return this.operation(match[1] as string).output(Number(match[2] ?? 0));
  }

  /** All ops, in the order in which they were added. */
  operations(): Operation[] {
    const found: Operation[] = [];
    const position = new BigUint64Array(1);
    for (;;) {
      const pointer = C().TF_GraphNextOperation(this.pointer, position);
      if (!pointer) return found;
      found.push(this.operationAt(pointer));
    }
  }

  uniqueName(name: string): string {
    return this.#names.unique(scopeOf(this).prefix + name);
  }

  /** Makes this the default graph while `body` runs. */
  asDefault<T>(body: () => T): T {
    return inScope(scopeOf(this), body);
  }

  /** Runs `body` with names under `name/`. A name that ends with a slash re-enters that exact scope. */
  nameScope<T>(name: string, body: (prefix: string) => T): T {
    const scope = scopeOf(this);
    let prefix: string;
    if (name === '') prefix = '';
    else if (name.endsWith('/')) prefix = name;
    else {
      checkOpName(name);
      prefix = `${this.#names.unique(scope.prefix + name)}/`;
    }
    return this.#within({ prefix }, () => body(prefix));
  }

  /** Runs `body` with ops on a device; null clears the device scopes. */
  device<T>(device: DeviceScope | null, body: () => T): T {
    return this.#within({ devices: device === null ? [] : [...scopeOf(this).devices, device] }, body);
  }

  /** Runs `body` with control dependencies on `ops`; null clears those of outer scopes. */
  controlDependencies<T>(ops: readonly (Operation | Output)[] | null, body: () => T): T {
    const own = ops?.map((op) => (op instanceof Operation ? op : op.op));
    return this.#within({ controlInputs: own ? [...scopeOf(this).controlInputs, ...own] : [] }, body);
  }

  /** Runs `body` with ops on the device of `op`, ignoring device scopes. */
  colocateWith<T>(op: Operation | Output, body: () => T): T {
    return this.#within({ colocation: op instanceof Operation ? op : op.op }, body);
  }

  #within<T>(change: Partial<Scope>, body: () => T): T {
    return inScope({ ...scopeOf(this), ...change }, body);
  }

  addToCollection(name: string, item: unknown): void {
    const items = this.#collections.get(name);
    if (items) items.push(item);
    else this.#collections.set(name, [item]);
  }

  getCollection<T = unknown>(name: string): T[] {
    return [...(this.#collections.get(name) ?? [])] as T[];
  }

  get collectionNames(): string[] {
    return [...this.#collections.keys()];
  }

  toGraphDefBytes(): Uint8Array {
    return fillBuffer((buffer, status) => C().TF_GraphToGraphDef(this.pointer, buffer, status));
  }

  toGraphDef(): GraphDef {
    return fromBinary(GraphDefSchema, this.toGraphDefBytes());
  }

  /** Adds the nodes of a GraphDef, with an optional prefix, input map and control dependencies. */
  importGraphDef(def: GraphDef | Uint8Array, options: ImportOptions = {}): ImportResult {
    const bytes = def instanceof Uint8Array ? def : toBinary(GraphDefSchema, def);
    const result = importGraphDef(this, bytes, options);
    for (const op of this.operations()) this.#names.reserve(op.name);
    return result;
  }

  get disposed(): boolean {
    return this.#handle.disposed;
  }

  /** Frees the graph. Sessions on it keep working; creating ops fails. */
  dispose(): void {
    this.#handle.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  toString(): string {
    return this.disposed ? 'Graph(disposed)' : `Graph(${this.opCount} ops)`;
  }

  /** What `console.log` prints. */
  [inspect.custom](): string {
    return this.toString();
  }
}

/** Attributes that begin with an underscore are not in the definition: the value determines their type. */
function guessAttrType(value: unknown): string {
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'float';
  if (typeof value === 'bigint') return 'int';
  if (Array.isArray(value)) return value.every((item) => typeof item === 'string') ? 'list(string)' : 'shape';
  return 'string';
}

let fallback: Graph | undefined;

/** The graph of the current scope, else the process's default graph. */
export function currentGraph(): Graph {
  const active = activeScope();
  if (active) return active.graph;
  fallback ??= new Graph();
  return fallback;
}

/** Starts a new default graph, as TensorFlow 1's reset_default_graph. The old one stays valid while it is used. */
export function resetDefaultGraph(): void {
  fallback = undefined;
}
