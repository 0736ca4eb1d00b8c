/** A node of a graph, and its outputs. Both are thin wrappers; the state is in TensorFlow. */
import { inspect } from 'node:util';
import { fromBinary } from '@bufbuild/protobuf';
import { invalid } from '../../base/errors/errors.js';
import { type NodeDef, NodeDefSchema } from '../../base/proto/generated/graph_pb.js';
import { fillBuffer, unpackOutputs } from '../native/buffer.js';
import type { Pointer } from '../native/library/c-api.js';
import { C } from '../native/library/library.js';
import { checked } from '../native/status.js';
import { type DType, dtypeFromNumber } from '../tensor/dtype.js';
import type { PartialShape } from '../tensor/shape.js';
import { type AttrValue, readAttr } from './attributes.js';

/** The graph of an op, as far as its ops need it; graph.ts completes the type with that of its class. */
export interface OwningGraph {
  /** @internal */
  readonly pointer: Pointer;
  assertAlive(): void;
  /** @internal */
  operationAt(pointer: Pointer): Operation;
}

export class Operation {
  readonly graph: OwningGraph;
  /** @internal */
  readonly pointer: Pointer;
  readonly name: string;
  readonly type: string;
  #outputs: Output[] | undefined;
  #inputs: Output[] | undefined;

  /** Created by a Graph only, which keeps one Operation per node. @internal */
  constructor(graph: OwningGraph, pointer: Pointer, name?: string, type?: string) {
    this.graph = graph;
    this.pointer = pointer;
    this.name = name ?? C().TF_OperationName(pointer);
    this.type = type ?? C().TF_OperationOpType(pointer);
  }

  get device(): string {
    this.graph.assertAlive();
    return C().TF_OperationDevice(this.pointer);
  }

  get outputs(): readonly Output[] {
    if (!this.#outputs) {
      this.graph.assertAlive();
      const count = C().TF_OperationNumOutputs(this.pointer);
      this.#outputs = Array.from({ length: count }, (_, index) => new Output(this, index));
    }
    return this.#outputs;
  }

  output(index = 0): Output {
    const output = this.outputs[index];
    if (!output) {
      throw invalid(
        `Op '${this.name}' (${this.type}) has ${this.outputs.length} outputs, no output ${index}`,
      );
    }
    return output;
  }

  /** The number of tensors of a named output: 1, or the length of a list output. */
  outputListLength(name: string): number {
    this.graph.assertAlive();
    return checked((status) => C().TF_OperationOutputListLength(this.pointer, name, status), {
      op: this.name,
    });
  }

  get inputs(): readonly Output[] {
    if (!this.#inputs) {
      this.graph.assertAlive();
      const count = C().TF_OperationNumInputs(this.pointer);
      const packed = new BigUint64Array(count * 2);
      if (count > 0) C().TF_OperationAllInputs(this.pointer, packed, count);
      this.#inputs = unpackOutputs(packed).map(({ oper, index }) =>
        this.graph.operationAt(oper).output(index),
      );
    }
    return this.#inputs;
  }

  get controlInputs(): readonly Operation[] {
    this.graph.assertAlive();
    const count = C().TF_OperationNumControlInputs(this.pointer);
    const packed = new BigUint64Array(count);
    if (count > 0) C().TF_OperationGetControlInputs(this.pointer, packed, count);
    return Array.from(packed, (pointer) => this.graph.operationAt(pointer));
  }

  /** An attribute by its TensorFlow name; undefined if the op does not have it. */
  attr(name: string): AttrValue | undefined {
    this.graph.assertAlive();
    return readAttr(this.pointer, name);
  }

  nodeDef(): NodeDef {
    this.graph.assertAlive();
    return fromBinary(
      NodeDefSchema,
      fillBuffer((buffer, status) => C().TF_OperationToNodeDef(this.pointer, buffer, status)),
    );
  }

  toString(): string {
    return `${this.type} '${this.name}'`;
  }

  /** What `console.log` prints. */
  [inspect.custom](): string {
    return this.toString();
  }
}

/** A value that converts to an output: an Output or a variable. */
export interface OutputLike<D extends DType = DType> {
  toOutput(): Output<D>;
}

export const isOutputLike = (value: unknown): value is OutputLike =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as Partial<OutputLike>).toOutput === 'function';

export class Output<D extends DType = DType> implements OutputLike<D> {
  readonly op: Operation;
  readonly index: number;
  readonly dtype: D;
  #shape: PartialShape | undefined;

  constructor(op: Operation, index: number) {
    this.op = op;
    this.index = index;
    this.dtype = dtypeFromNumber(C().TF_OperationOutputType(this)) as D;
  }

  toOutput(): this {
    return this;
  }

  /** @internal */
  get oper(): Pointer {
    return this.op.pointer;
  }

  get graph(): OwningGraph {
    return this.op.graph;
  }

  /** `op:index`, as TensorFlow names tensors. */
  get name(): string {
    return `${this.op.name}:${this.index}`;
  }

  /** The static shape from shape inference. */
  get shape(): PartialShape {
    if (this.#shape === undefined) {
      this.graph.assertAlive();
      const graph = this.graph.pointer;
      const rank = checked((status) => C().TF_GraphGetTensorNumDims(graph, this, status));
      if (rank < 0) this.#shape = null;
      else {
        const dims = new BigInt64Array(rank);
        checked((status) => C().TF_GraphGetTensorShape(graph, this, dims, rank, status));
        this.#shape = Array.from(dims, (dim) => (dim < 0n ? null : Number(dim)));
      }
    }
    return this.#shape;
  }

  get rank(): number | null {
    return this.shape?.length ?? null;
  }

  /** Refines the static shape; throws if it contradicts the inferred one. */
  setShape(shape: PartialShape): this {
    if (shape !== null) {
      const dims = BigInt64Array.from(shape, (dim) => BigInt(dim ?? -1));
      checked((status) => C().TF_GraphSetTensorShape(this.graph.pointer, this, dims, dims.length, status), {
        op: this.op.name,
      });
      this.#shape = undefined;
    }
    return this;
  }

  toString(): string {
    const shape = this.shape === null ? '?' : `[${this.shape.map((dim) => dim ?? '?').join(', ')}]`;
    return `Output('${this.name}', ${this.dtype} ${shape})`;
  }

  /** What `console.log` prints. */
  [inspect.custom](): string {
    return this.toString();
  }
}
