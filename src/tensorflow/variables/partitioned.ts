/** Partitioned variables: one name, several partitions, each placed by the device scopes. */
import { inspect } from 'node:util';
import { invalid } from '../../base/errors/errors.js';
import type { Output, OutputLike } from '../graph/operation.js';
import { activeScope } from '../graph/scope.js';
import { concat, slice as sliceOf } from '../ops/arrays.js';
import { asOutput, type Operand } from '../ops/build.js';
import { DTYPES, type DType } from '../tensor/dtype.js';
import { type Shape, sizeOf } from '../tensor/shape.js';
import { Variable } from './variable.js';

/** Returns the number of partitions per axis; at most one may be above 1. */
export type Partitioner = (shape: Shape, dtype: DType) => readonly number[];

/** A fixed number of partitions along an axis. */
export const fixedSizePartitioner =
  (shards: number, axis = 0): Partitioner =>
  (shape) =>
    shape.map((size, i) => (i === axis ? Math.max(1, Math.min(shards, size)) : 1));

/** The fewest partitions of at most `maxShardBytes` each. Default: along axis 0, any number. */
export const variableAxisSizePartitioner =
  (
    maxShardBytes: number,
    options: { readonly axis?: number | null; readonly maxShards?: number | null } = {},
  ): Partitioner =>
  (shape, dtype) => {
    const axis = options.axis ?? 0;
    const maxShards = options.maxShards ?? Number.POSITIVE_INFINITY;
    const size = shape[axis] ?? 1;
    const sliceBytes = (sizeOf(shape) / Math.max(1, size)) * DTYPES[dtype].size;
    const perShard = Math.max(1, Math.floor(maxShardBytes / Math.max(1, sliceBytes)));
    const shards = Math.min(Math.ceil(size / perShard), maxShards, size);
    return shape.map((_, i) => (i === axis ? Math.max(1, shards) : 1));
  };

/** At most `maxPartitions`, none smaller than `minSliceBytes`. Default: along axis 0, 256 KiB. */
export const minMaxVariablePartitioner =
  (
    maxPartitions: number,
    options: { readonly axis?: number | null; readonly minSliceBytes?: number | null } = {},
  ): Partitioner =>
  (shape, dtype) => {
    const axis = options.axis ?? 0;
    const minSliceBytes = options.minSliceBytes ?? 256 * 1024;
    const bytes = sizeOf(shape) * DTYPES[dtype].size;
    const shards = Math.max(1, Math.min(maxPartitions, Math.ceil(bytes / minSliceBytes), shape[axis] ?? 1));
    return shape.map((_, i) => (i === axis ? shards : 1));
  };

interface CreateOptions {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
  readonly partitioner: Partitioner;
  /** The initial value of a partition of this shape, or of the complete variable. */
  readonly make: (shape: Shape) => Operand;
  readonly trainable: boolean;
  readonly collections?: readonly string[];
}

export class PartitionedVariable implements OutputLike {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
  /** The partitioned axis. */
  readonly axis: number;
  readonly parts: readonly Variable[];
  #whole: Output | undefined;

  private constructor(name: string, shape: Shape, dtype: DType, axis: number, parts: readonly Variable[]) {
    this.name = name;
    this.shape = shape;
    this.dtype = dtype;
    this.axis = axis;
    this.parts = parts;
  }

  /** @internal */
  static create(options: CreateOptions): PartitionedVariable {
    const { name, shape, dtype, partitioner, make } = options;
    const cuts = partitioner(shape, dtype);
    if (cuts.length !== shape.length || cuts.filter((cut) => cut > 1).length > 1) {
      throw invalid(`A partitioner must split one axis of variable '${name}'; got [${cuts.join(', ')}]`);
    }
    const axis = Math.max(
      0,
      cuts.findIndex((cut) => cut > 1),
    );
    let offset = 0;
    const parts = splitSizes(shape[axis] ?? 1, cuts[axis] ?? 1).map((size, i) => {
      const partShape = shape.map((dim, at) => (at === axis ? size : dim));
      const start = shape.map((_, at) => (at === axis ? offset : 0));
      offset += size;
      return Variable.create({
        name: `${name}/part_${i}`,
        shape: partShape,
        dtype,
        initialValue: () => firstValue(make, partShape, start),
        trainable: options.trainable,
        collections: options.collections,
        sliceInfo: { fullName: name, fullShape: shape, offset: start, shape: partShape },
      });
    });
    return new PartitionedVariable(name, shape, dtype, axis, parts);
  }

  /** The concatenated value. For tables use lookups, which read only the needed rows. */
  toOutput(): Output {
    const scope = activeScope();
    // A read with control dependencies, or within a function, is not shared.
    const isShared = !scope || (scope.graph === this.parts[0]?.graph && scope.controlInputs.length === 0);
    if (!isShared) return this.#join();
    this.#whole ??= this.#join();
    return this.#whole;
  }

  #join(): Output {
    return concat(this.parts, this.axis);
  }

  toString(): string {
    return `PartitionedVariable('${this.name}', ${this.dtype} ${JSON.stringify(this.shape)}, ${this.parts.length} parts)`;
  }

  /** What `console.log` prints. */
  [inspect.custom](): string {
    return this.toString();
  }
}

/** TensorFlow's split: the first partitions take the remainder. */
export function splitSizes(size: number, parts: number): number[] {
  const base = Math.floor(size / parts);
  return Array.from({ length: parts }, (_, i) => base + (i < size % parts ? 1 : 0));
}

/** The initial value of a partition: created for it, or sliced from a complete value. */
function firstValue(make: (shape: Shape) => Operand, shape: Shape, start: readonly number[]): Operand {
  const value = asOutput(make(shape));
  const same =
    value.shape?.length === shape.length && value.shape.every((dim, i) => dim === null || dim === shape[i]);
  return same ? value : sliceOf(value, start, shape);
}
