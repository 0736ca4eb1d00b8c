/** Parses serialized tf.train.Example messages with TensorFlow's parser. */
import { invalid } from '../../../base/errors/errors.js';
import { currentGraph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { asOutput, constantIn, type Operand } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { type PartialShape, type Shape, sizeOf } from '../../../tensorflow/tensor/shape.js';
import { Tensor, type TensorLike } from '../../../tensorflow/tensor/tensor.js';
import type { LeafSpec, Spec } from './structure.js';

/** The types that an Example can hold. */
export type FeatureType = 'float32' | 'int64' | 'string';

/** The same number of values in every example. Without a default a missing feature is an error. */
export interface FixedLenFeature<D extends FeatureType = FeatureType> {
  readonly kind: 'fixed';
  readonly dtype: D;
  readonly shape: Shape;
  /** The value of a missing feature; default: none, it is an error. */
  readonly defaultValue?: TensorLike;
}

/** Any number of values, as a SparseTensor. */
export interface VarLenFeature<D extends FeatureType = FeatureType> {
  readonly kind: 'variable';
  readonly dtype: D;
}

/** Any number of rows of one shape, padded to the longest of the batch. */
export interface FixedLenSequenceFeature<D extends FeatureType = FeatureType> {
  readonly kind: 'sequence';
  readonly dtype: D;
  readonly shape: Shape;
  /** The padding value; default: 0 or ''. */
  readonly defaultValue?: TensorLike;
}

export type Feature = FixedLenFeature | VarLenFeature | FixedLenSequenceFeature;
export type Features = Readonly<Record<string, Feature>>;

export type ParsedFeatures<F extends Features> = {
  -readonly [K in keyof F]: F[K] extends { readonly kind: 'variable'; readonly dtype: infer D extends DType }
    ? SparseTensor<D>
    : F[K] extends { readonly dtype: infer D extends DType }
      ? Output<D>
      : never;
};

/** A feature is described by a call, or by `new` as in TensorFlow, where it is a class. */
interface FixedMaker {
  <D extends FeatureType>(shape: Shape, dtype: D, defaultValue?: TensorLike | null): FixedLenFeature<D>;
  new <D extends FeatureType>(shape: Shape, dtype: D, defaultValue?: TensorLike | null): FixedLenFeature<D>;
}

interface VarMaker {
  <D extends FeatureType>(dtype: D): VarLenFeature<D>;
  new <D extends FeatureType>(dtype: D): VarLenFeature<D>;
}

interface SequenceMaker {
  <D extends FeatureType>(
    shape: Shape,
    dtype: D,
    defaultValue?: TensorLike | null,
  ): FixedLenSequenceFeature<D>;
  new <D extends FeatureType>(
    shape: Shape,
    dtype: D,
    defaultValue?: TensorLike | null,
  ): FixedLenSequenceFeature<D>;
}

// Functions, because `new` does not accept arrow functions.
export const fixedLenFeature = function fixedLenFeature(
  shape: Shape,
  dtype: FeatureType,
  defaultValue?: TensorLike | null,
): FixedLenFeature {
  return { kind: 'fixed', dtype, shape, defaultValue: defaultValue ?? undefined };
} as unknown as FixedMaker;

export const varLenFeature = function varLenFeature(dtype: FeatureType): VarLenFeature {
  return { kind: 'variable', dtype };
} as unknown as VarMaker;

export const fixedLenSequenceFeature = function fixedLenSequenceFeature(
  shape: Shape,
  dtype: FeatureType,
  defaultValue?: TensorLike | null,
): FixedLenSequenceFeature {
  return { kind: 'sequence', dtype, shape, defaultValue: defaultValue ?? undefined };
} as unknown as SequenceMaker;

/** The features in byte order of their names, as TensorFlow's parser returns them. */
export interface FeaturePlan {
  readonly sparse: readonly { readonly key: string; readonly dtype: FeatureType }[];
  readonly dense: readonly {
    readonly key: string;
    readonly dtype: FeatureType;
    readonly shape: PartialShape;
    readonly defaultValue: Tensor;
  }[];
}

export function planFeatures(features: Features): FeaturePlan {
  const names = Object.keys(features).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  if (names.length === 0) throw invalid('parseExample needs at least one feature');
  const sparse: FeaturePlan['sparse'][number][] = [];
  const dense: FeaturePlan['dense'][number][] = [];
  for (const key of names) {
    const feature = features[key] as Feature;
    if (feature.kind === 'variable') sparse.push({ key, dtype: feature.dtype });
    else {
      const { dtype } = feature;
      const shape = feature.kind === 'sequence' ? [null, ...feature.shape] : feature.shape;
      dense.push({ key, dtype, shape, defaultValue: defaultOf(key, feature) });
    }
  }
  return { sparse, dense };
}

/** An empty default means that the feature is required. A sequence is optional, padded with zeros or ''. */
function defaultOf(key: string, feature: FixedLenFeature | FixedLenSequenceFeature): Tensor {
  const { dtype, defaultValue, shape } = feature;
  if (defaultValue === undefined && feature.kind === 'fixed') return Tensor.of([], { dtype, shape: [0] });
  const given = defaultValue ?? (dtype === 'string' ? '' : 0);
  const value = given instanceof Tensor ? given : Tensor.of(given, { dtype });
  if (value.dtype !== dtype) {
    throw invalid(`The default of feature '${key}' is ${value.dtype}, the feature is ${dtype}`);
  }
  if (feature.kind === 'sequence') {
    if (value.size !== 1) throw invalid(`The default of the sequence feature '${key}' must be one value`);
    return value.reshape([]);
  }
  const size = sizeOf(shape);
  if (value.size === size) return value.reshape(shape);
  if (value.size !== 1) {
    throw invalid(`The default of feature '${key}' has ${value.size} values, its shape has ${size}`);
  }
  const [only] = value.reshape([1]).toArray() as [never];
  return Tensor.of(new Array<never>(size).fill(only), { dtype, shape });
}

/**
 * Parses one serialized Example, or a vector of them: outputs for features of fixed length, SparseTensors
 * for those of variable length, both with a batch dimension in front where a vector was given.
 */
export function parseExample<const F extends Features>(
  serialized: Operand<'string'>,
  features: F,
  options: { readonly name?: string | null } = {},
): ParsedFeatures<F> {
  const { sparse, dense } = planFeatures(features);
  const strings = (keys: readonly { readonly key: string }[]) =>
    Tensor.of(
      keys.map(({ key }) => key),
      { dtype: 'string', shape: [keys.length] },
    );
  const none = Tensor.of([], { dtype: 'string', shape: [0] });
  const parsed = raw.parseExampleV2(
    asOutput(serialized, 'string'),
    none,
    strings(sparse),
    strings(dense),
    none,
    dense.map(({ defaultValue }) => constantIn(currentGraph(), defaultValue)),
    {
      numSparse: sparse.length,
      sparseTypes: sparse.map(({ dtype }) => dtype),
      raggedValueTypes: [],
      raggedSplitTypes: [],
      denseShapes: dense.map(({ shape }) => shape),
      name: options.name ?? 'ParseExample',
    },
  );
  const results: Record<string, Output | SparseTensor> = {};
  for (const key of Object.keys(features)) {
    const at = sparse.findIndex((one) => one.key === key);
    if (at < 0) {
      results[key] = parsed.denseValues[dense.findIndex((one) => one.key === key)] as Output;
      continue;
    }
    results[key] = new SparseTensor({
      indices: parsed.sparseIndices[at] as Output,
      values: parsed.sparseValues[at] as Output,
      denseShape: parsed.sparseShapes[at] as Output,
    });
  }
  return results as ParsedFeatures<F>;
}

/** The spec of a dataset of parsed batches, in the order of the parser's results. */
export function parsedSpec({ sparse, dense }: FeaturePlan, batch: number | null): Spec {
  const leaves = new Map<string, LeafSpec>([
    ...sparse.map(({ key, dtype }) => [key, { kind: 'sparse', dtype, shape: [batch, null] }] as const),
    ...dense.map(
      ({ key, dtype, shape }) => [key, { kind: 'tensor', dtype, shape: [batch, ...(shape ?? [])] }] as const,
    ),
  ]);
  const entries = [...leaves].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return { kind: 'record', entries };
}
