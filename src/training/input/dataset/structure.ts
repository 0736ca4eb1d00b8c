/**
 * The structure of dataset elements: outputs and sparse tensors in any nesting of arrays and plain objects.
 * TensorFlow's datasets hold flat lists of tensors; a Spec describes the conversion.
 *
 * A sparse tensor travels as one variant tensor, of shape [3] by itself and [n, 3] in a batch of n.
 */
import { invalid } from '../../../base/errors/errors.js';
import { isOutputLike, type Output, type OutputLike } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { asOutput } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { formatShape, type PartialShape } from '../../../tensorflow/tensor/shape.js';
import type { TensorLike } from '../../../tensorflow/tensor/tensor.js';

export interface LeafSpec {
  readonly kind: 'tensor' | 'sparse';
  readonly dtype: DType;
  /** For a sparse tensor, its dense shape. */
  readonly shape: PartialShape;
}

export type Spec =
  | LeafSpec
  | { readonly kind: 'list'; readonly items: readonly Spec[] }
  | { readonly kind: 'record'; readonly entries: readonly (readonly [string, Spec])[] };

/** The element type of a structure given by the user: everything convertible to an output is an output. */
export type DatasetElement<U> =
  U extends SparseTensor<infer D>
    ? SparseTensor<D>
    : U extends OutputLike<infer D>
      ? Output<D>
      : U extends TensorLike
        ? Output
        : U extends object
          ? { -readonly [K in keyof U]: DatasetElement<U[K]> }
          : Output;

/** The leaves from left to right. */
export function leavesOf(spec: Spec): LeafSpec[] {
  if (spec.kind === 'list') return spec.items.flatMap(leavesOf);
  if (spec.kind === 'record') return spec.entries.flatMap(([, item]) => leavesOf(item));
  return [spec];
}

export function mapLeaves(spec: Spec, change: (leaf: LeafSpec) => LeafSpec): Spec {
  if (spec.kind === 'list') return { kind: 'list', items: spec.items.map((item) => mapLeaves(item, change)) };
  if (spec.kind === 'record') {
    return { kind: 'record', entries: spec.entries.map(([key, item]) => [key, mapLeaves(item, change)]) };
  }
  return change(spec);
}

/** The type attributes of dataset ops. */
export function typesOf(spec: Spec): { outputTypes: DType[]; outputShapes: PartialShape[] } {
  const leaves = leavesOf(spec);
  return {
    outputTypes: leaves.map(({ kind, dtype }) => (kind === 'sparse' ? 'variant' : dtype)),
    outputShapes: leaves.map(({ kind, shape }) => (kind === 'sparse' ? null : shape)),
  };
}

export interface Flat {
  readonly spec: Spec;
  readonly components: readonly Output[];
}

/** Flattens a structure. Literals become constants; an array is a list unless it contains only literals. */
export function flattenElement(value: unknown): Flat {
  const components: Output[] = [];
  const spec = visit(value, (leaf) => {
    if (leaf instanceof SparseTensor) {
      components.push(raw.serializeSparse(...partsOf(leaf), { outType: 'variant' }));
      return { kind: 'sparse', dtype: leaf.dtype, shape: sparseShape(leaf) };
    }
    const output = asOutput(leaf);
    components.push(output);
    return { kind: 'tensor', dtype: output.dtype, shape: output.shape };
  });
  return { spec, components };
}

/** Flattens a structure of batches; the spec describes one slice along the first dimension. */
export function flattenSlices(value: unknown): Flat {
  const components: Output[] = [];
  const spec = visit(value, (leaf) => {
    if (leaf instanceof SparseTensor) {
      components.push(raw.serializeManySparse(...partsOf(leaf), { outType: 'variant' }));
      return { kind: 'sparse', dtype: leaf.dtype, shape: sparseShape(leaf)?.slice(1) ?? null };
    }
    const output = asOutput(leaf);
    if (output.rank === 0) {
      throw invalid(`${output} is a scalar and cannot be sliced along a first dimension`, {
        hint: 'Use tf.data.fromTensors for a dataset of one element.',
      });
    }
    components.push(output);
    return { kind: 'tensor', dtype: output.dtype, shape: output.shape?.slice(1) ?? null };
  });
  return { spec, components };
}

const partsOf = (sparse: SparseTensor) => [sparse.indices, sparse.values, sparse.denseShape] as const;

function sparseShape({ rank }: SparseTensor): PartialShape {
  return rank === null ? null : Array.from({ length: rank }, () => null);
}

function visit(value: unknown, leaf: (value: SparseTensor | TensorLike | OutputLike) => LeafSpec): Spec {
  if (value instanceof SparseTensor || isOutputLike(value) || isLiteral(value)) {
    return leaf(value as SparseTensor | TensorLike | OutputLike);
  }
  if (Array.isArray(value)) return { kind: 'list', items: value.map((item) => visit(item, leaf)) };
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value);
    if (entries.length === 0) throw invalid('An element of a dataset contains an empty object');
    return { kind: 'record', entries: entries.map(([key, item]) => [key, visit(item, leaf)] as const) };
  }
  throw invalid(`An element of a dataset contains ${String(value)}, which is not a tensor`);
}

/** A number, string, tensor or typed array, or nested arrays of the first two. */
function isLiteral(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0 && value.every((item) => isPlain(item));
  return isPlain(value) || ArrayBuffer.isView(value) || isTensor(value);
}

function isPlain(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isPlain);
  return ['number', 'bigint', 'boolean', 'string'].includes(typeof value);
}

const isTensor = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'toArray' in value && 'dtype' in value;

/** Rebuilds the structure from a flat list of tensors. */
export function unflattenElement(spec: Spec, components: readonly Output[]): unknown {
  let next = 0;
  const build = (part: Spec): unknown => {
    if (part.kind === 'list') return part.items.map(build);
    if (part.kind === 'record') {
      return Object.fromEntries(part.entries.map(([key, item]) => [key, build(item)]));
    }
    const component = components[next++];
    if (!component) throw invalid(`The spec has more leaves than the ${components.length} tensors given`);
    return part.kind === 'sparse' ? deserialize(part, component) : component;
  };
  return build(spec);
}

function deserialize({ dtype, shape }: LeafSpec, variant: Output): SparseTensor {
  const { sparseIndices, sparseValues, sparseShape } = raw.deserializeSparse(variant, { dtype });
  if (shape !== null) {
    sparseIndices.setShape([null, shape.length]);
    sparseShape.setShape([shape.length]);
  }
  return new SparseTensor({ indices: sparseIndices, values: sparseValues, denseShape: sparseShape });
}

/** Adds a first dimension. */
export const batched = (spec: Spec, size: number | null): Spec =>
  mapLeaves(spec, (leaf) => ({ ...leaf, shape: leaf.shape && [size, ...leaf.shape] }));

/** Removes the first dimension. */
export const unbatched = (spec: Spec): Spec =>
  mapLeaves(spec, (leaf) => {
    if (leaf.shape?.length === 0)
      throw invalid(`unbatch needs a first dimension, but an element has a ${leaf.dtype} scalar`);
    return { ...leaf, shape: leaf.shape?.slice(1) ?? null };
  });

/** The common spec of both; an error if they differ in more than shapes. */
export function common(a: Spec, b: Spec, what: string): Spec {
  const [left, right] = [leavesOf(a), leavesOf(b)];
  const same = left.length === right.length && left.every((leaf, i) => sameKind(leaf, right[i] as LeafSpec));
  if (!same || outline(a) !== outline(b)) {
    throw invalid(`${what} must have the same element structure: ${describe(a)} and ${describe(b)} differ`);
  }
  let next = 0;
  return mapLeaves(a, (leaf) => ({ ...leaf, shape: commonShape(leaf.shape, right[next++]?.shape ?? null) }));
}

const sameKind = (a: LeafSpec, b: LeafSpec): boolean => a.kind === b.kind && a.dtype === b.dtype;

function commonShape(a: PartialShape, b: PartialShape): PartialShape {
  if (a === null || b === null || a.length !== b.length) return null;
  return a.map((dim, i) => (dim === b[i] ? dim : null));
}

/** The nesting without types. */
function outline(spec: Spec): string {
  if (spec.kind === 'list') return `[${spec.items.map(outline).join()}]`;
  if (spec.kind === 'record') return `{${spec.entries.map(([k, v]) => `${k}:${outline(v)}`).join()}}`;
  return '*';
}

/** For messages: `{ids: sparse int64 [?, ?], label: float32 [?]}`. */
export function describe(spec: Spec): string {
  if (spec.kind === 'list') return `[${spec.items.map(describe).join(', ')}]`;
  if (spec.kind === 'record') {
    return `{${spec.entries.map(([key, item]) => `${key}: ${describe(item)}`).join(', ')}}`;
  }
  return `${spec.kind === 'sparse' ? 'sparse ' : ''}${spec.dtype} ${formatShape(spec.shape)}`;
}
