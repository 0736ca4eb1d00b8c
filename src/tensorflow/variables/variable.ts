/**
 * A resource variable: TensorFlow keeps its value by name on the device of its handle. Reading it creates an op; reads
 * without control dependencies share one op.
 */
import { inspect } from 'node:util';
import { create, toBinary } from '@bufbuild/protobuf';
import { invalid } from '../../base/errors/errors.js';
import {
  SaveSliceInfoDefSchema,
  type VariableDef,
  VariableDefSchema,
} from '../../base/proto/generated/graph_pb.js';
import type { Attrs } from '../graph/attributes.js';
import { currentGraph, type Graph, type OpOptions } from '../graph/graph.js';
import type { Operation, Output, OutputLike } from '../graph/operation.js';
import { activeScope, scopeOf } from '../graph/scope.js';
import { type GatherOptions, gather } from '../ops/arrays.js';
import { asOutput, build, type Operand } from '../ops/build.js';
import { type ChainMethods, installChain } from '../ops/chain.js';
import * as raw from '../ops/generated/index.js';
import type { DType } from '../tensor/dtype.js';
import { isFullyDefined, type PartialShape, type Shape } from '../tensor/shape.js';
import { GraphKeys } from './collections.js';

/** An attribute of a ResourceGather whose indices are distinct. */
export const DISTINCT_ROWS = '_shoal_distinct_rows';

/** The slice of a partitioned variable that this variable holds; checkpoints store all slices under one name. */
export interface SliceInfo {
  readonly fullName: string;
  readonly fullShape: Shape;
  readonly offset: readonly number[];
  readonly shape: Shape;
}

export interface VariableOptions<D extends DType = DType> {
  /** The initial value, or a function that creates it. */
  readonly initialValue: Operand | (() => Operand);
  /** The full name, as in checkpoints. */
  readonly name: string;
  /** The dtype; default: that of the initial value. */
  readonly dtype?: D;
  /**
   * The shape of the initial value, if it and `dtype` are known in advance. The initial value is then created on the
   * variable's device, so that a large one does not pass through the task that initializes. Default: unknown.
   */
  readonly shape?: Shape;
  /** Whether optimizers update it; default: true. */
  readonly trainable?: boolean;
  /** The collections it is added to; default: the global variables. */
  readonly collections?: readonly string[];
  /** The partition of a larger variable that this one holds; default: none. */
  readonly sliceInfo?: SliceInfo;
  /** The device; default: that of the scopes. */
  readonly device?: string;
}

interface VariableState<D extends DType> {
  readonly graph: Graph;
  readonly name: string;
  readonly trainable: boolean;
  readonly handle: Output;
  readonly initialValue: Output<D>;
  readonly initializer: Operation;
  readonly isInitialized: Output<'bool'>;
  readonly read: Output;
  readonly sliceInfo: SliceInfo | undefined;
}

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the methods of the interface are installed below
export class Variable<D extends DType = DType> implements OutputLike<D> {
  readonly graph: Graph;
  readonly name: string;
  readonly dtype: D;
  readonly shape: PartialShape;
  readonly trainable: boolean;
  /** The resource handle, which optimizers update and gradients refer to. */
  readonly handle: Output<'resource'>;
  readonly initialValue: Output<D>;
  /** The op that assigns the initial value. */
  readonly initializer: Operation;
  readonly sliceInfo: SliceInfo | undefined;
  /** The shared read. */
  readonly #read: Output<D>;
  readonly #isInitialized: Output<'bool'>;

  private constructor(parts: VariableState<D>) {
    this.graph = parts.graph;
    this.name = parts.name;
    this.trainable = parts.trainable;
    this.sliceInfo = parts.sliceInfo;
    this.initialValue = parts.initialValue;
    this.dtype = parts.initialValue.dtype;
    this.shape = parts.initialValue.shape;
    this.handle = parts.handle as Output<'resource'>;
    this.initializer = parts.initializer;
    this.#read = parts.read as Output<D>;
    this.#isInitialized = parts.isInitialized;
  }

  /** Adds a variable to the current graph. */
  static create<D extends DType = DType>(options: VariableOptions<D>): Variable<D> {
    const graph = currentGraph();
    const { name } = options;
    const exact = (suffix: string): string => `${name}${suffix}/`;
    // A variable is created independent of the current control dependencies.
    const parts = graph.controlDependencies(null, () => {
      const device = options.device ? { device: options.device } : {};
      const holds = (of: { readonly dtype: D; readonly shape: PartialShape }) =>
        raw.varHandleOp({ dtype: of.dtype, shape: of.shape, sharedName: name, name: exact(''), ...device });
      const first = () =>
        graph.nameScope(`${name}/Initializer/`, () =>
          asOutput<D>(
            typeof options.initialValue === 'function' ? options.initialValue() : options.initialValue,
            options.dtype,
          ),
        );
      const ahead = options.dtype && options.shape && holds({ dtype: options.dtype, shape: options.shape });
      const initialValue = ahead ? graph.colocateWith(ahead, first) : first();
      const { dtype } = initialValue;
      const handle = ahead ?? holds(initialValue);
      return graph.colocateWith(handle, () => ({
        initialValue,
        handle,
        initializer: raw.assignVariableOp(handle, initialValue, { name: exact('/Assign') }),
        isInitialized: raw.varIsInitializedOp(handle, { name: exact('/IsInitialized/VarIsInitializedOp') }),
        read: raw.readVariableOp(handle, { dtype, name: exact('/Read/ReadVariableOp') }),
      }));
    });
    const trainable = options.trainable ?? true;
    const made = new Variable<D>({ ...parts, graph, name, trainable, sliceInfo: options.sliceInfo });
    const collections = options.collections ?? [GraphKeys.globalVariables];
    for (const collection of collections) graph.addToCollection(collection, made);
    if (trainable && collections.includes(GraphKeys.globalVariables)) {
      graph.addToCollection(GraphKeys.trainableVariables, made);
    }
    return made;
  }

  /** A variable whose nodes are already in the graph, from a VariableDef of a MetaGraphDef. */
  static existing(graph: Graph, def: VariableDef, prefix = ''): Variable {
    const handle = graph.output(prefix + def.variableName);
    const name = prefix + def.variableName.replace(/:\d+$/, '');
    const info = def.saveSliceInfoDef;
    return new Variable({
      graph,
      name,
      trainable: def.trainable,
      handle,
      initialValue: graph.output(prefix + def.initialValueName),
      initializer: graph.operation(prefix + def.initializerName),
      isInitialized: graph.asDefault(() => raw.varIsInitializedOp(handle)),
      read: graph.output(prefix + def.snapshotName),
      sliceInfo: info && {
        fullName: info.fullName,
        fullShape: info.fullShape.map(Number),
        offset: info.varOffset.map(Number),
        shape: info.varShape.map(Number),
      },
    });
  }

  get device(): string {
    return this.handle.op.device;
  }

  get op(): Operation {
    return this.handle.op;
  }

  /** The fully defined static shape, which optimizers need. */
  get fullShape(): Shape {
    if (!isFullyDefined(this.shape))
      throw invalid(`The shape of variable '${this.name}' must be fully defined`);
    return this.shape;
  }

  /** The value; ordered by the current control dependencies. */
  toOutput(): Output<D> {
    const graph = currentGraphFor(this.graph);
    if (graph === this.graph && scopeOf(graph).controlInputs.length === 0) return this.#read;
    return this.read();
  }

  /** A separate read op, ordered by the current control dependencies. */
  read(options: OpOptions = {}): Output<D> {
    const read = this.#beside(() =>
      raw.readVariableOp(this.handle, { dtype: this.dtype, name: 'ReadVariableOp', ...options }),
    );
    return (read.shape === null ? read.setShape(this.shape) : read) as Output<D>;
  }

  /**
   * Creates an op on the device of the variable. Within a function the handle is an argument: it has no device to
   * colocate with, and no known shape.
   */
  #beside<T>(make: () => T): T {
    const graph = currentGraphFor(this.graph);
    return graph === this.graph ? graph.colocateWith(this.handle, make) : make();
  }

  /** Some rows of the value, without reading the rest; along another axis as `tf.gather`. */
  gather(indices: Operand, options: GatherOptions = {}): Output<D> {
    return gather(this as Operand<D>, indices, options);
  }

  /** The same for indices that the caller guarantees to be distinct: their gradient needs no summing. */
  gatherDistinct(indices: Operand, options: OpOptions = {}): Output<D> {
    return this.#gather(indices, { [DISTINCT_ROWS]: true }, options);
  }

  /** For `tf.gather`. @internal */
  readRows(indices: Output, options: OpOptions = {}): Output<D> {
    return this.#gather(indices, {}, options);
  }

  /** For `tf.gatherNd`. @internal */
  readParts(indices: Output, options: OpOptions = {}): Output<D> {
    return this.#beside(() =>
      build('ResourceGatherNd', [this.handle, indices], { dtype: this.dtype }, options).output(),
    ) as Output<D>;
  }

  #gather(indices: Operand, attrs: Attrs, options: OpOptions): Output<D> {
    const rows = this.#beside(() =>
      build('ResourceGather', [this.handle, indices], { dtype: this.dtype, ...attrs }, options).output(),
    );
    const places = rows.op.inputs[1]?.shape ?? null;
    return (
      rows.shape === null && places && this.shape ? rows.setShape([...places, ...this.shape.slice(1)]) : rows
    ) as Output<D>;
  }

  isInitialized(): Output<'bool'> {
    return this.#isInitialized;
  }

  assign(value: Operand<D>, options: OpOptions = {}): Operation {
    return raw.assignVariableOp(this.handle, asOutput(value, this.dtype), {
      validateShape: true,
      ...options,
    });
  }

  assignAdd(value: Operand<D>, options: OpOptions = {}): Operation {
    return raw.assignAddVariableOp(this.handle, asOutput(value, this.dtype), options);
  }

  assignSub(value: Operand<D>, options: OpOptions = {}): Operation {
    return raw.assignSubVariableOp(this.handle, asOutput(value, this.dtype), options);
  }

  scatterUpdate(indices: Operand, updates: Operand<D>, options: OpOptions = {}): Operation {
    return raw.resourceScatterUpdate(this.handle, indices, asOutput(updates, this.dtype), options);
  }

  scatterAdd(indices: Operand, updates: Operand<D>, options: OpOptions = {}): Operation {
    return raw.resourceScatterAdd(this.handle, indices, asOutput(updates, this.dtype), options);
  }

  /** The VariableDef for the collections of a MetaGraphDef. */
  toCollectionBytes(): Uint8Array {
    return toBinary(
      VariableDefSchema,
      create(VariableDefSchema, {
        variableName: this.handle.name,
        initialValueName: this.initialValue.name,
        initializerName: this.initializer.name,
        snapshotName: this.#read.name,
        isResource: true,
        trainable: this.trainable,
        ...(this.sliceInfo
          ? {
              saveSliceInfoDef: create(SaveSliceInfoDefSchema, {
                fullName: this.sliceInfo.fullName,
                fullShape: this.sliceInfo.fullShape.map(BigInt),
                varOffset: this.sliceInfo.offset.map(BigInt),
                varShape: this.sliceInfo.shape.map(BigInt),
              }),
            }
          : {}),
      }),
    );
  }

  toString(): string {
    return `Variable('${this.name}', ${this.dtype} ${JSON.stringify(this.shape)})`;
  }

  /** What `console.log` prints. */
  [inspect.custom](): string {
    return this.toString();
  }
}

// biome-ignore lint/correctness/noUnusedVariables: the declarations of a class and its interface must agree
export interface Variable<D extends DType = DType> extends Omit<ChainMethods, 'gather'> {}

installChain(Variable.prototype);
function currentGraphFor(graph: Graph): Graph {
  const active = activeScope()?.graph;
  // Outside any scope, ops go to the graph of their inputs.
  return active && isWithin(active, graph) ? active : graph;
}

/** Whether `inner` is `outer` or the graph of a function within it. */
function isWithin(inner: Graph, outer: Graph): boolean {
  for (let graph: Graph | undefined = inner; graph; graph = (graph as { outer?: Graph }).outer) {
    if (graph === outer) return true;
  }
  return false;
}
