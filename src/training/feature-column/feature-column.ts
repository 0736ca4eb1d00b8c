/**
 * What a feature column is. Columns describe features and hold no tensors: one column can be used in several graphs.
 * A dense column gives numbers, a categorical one gives ids; a bucketized column is both.
 */
import type { Output } from '../../tensorflow/graph/operation.js';
import type { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import type { PartitionedVariable } from '../../tensorflow/variables/partitioned.js';
import type { Variable } from '../../tensorflow/variables/variable.js';
import type { Features } from '../input/dataset/parse-example.js';
import type { FeatureTensors } from './feature-tensors.js';

export abstract class FeatureColumn {
  /** As TensorFlow names it; the variables of the column are named after it. */
  abstract readonly name: string;

  /** The variable scope of the column. */
  get scopeName(): string {
    return this.name;
  }

  /** How the features of this column are parsed from serialized examples. */
  abstract parseSpec(): Features;

  toString(): string {
    return `${this.constructor.name}('${this.name}')`;
  }
}

/** How a column creates its variables. */
export interface ColumnVariables {
  readonly trainable: boolean;
  readonly collections: readonly string[];
  /** Called for each variable of the column. */
  readonly onVariable: (variable: Variable | PartitionedVariable) => void;
}

/** A column of numbers: the same count for each example. */
export interface DenseColumn extends FeatureColumn {
  /** The shape of one example. */
  readonly variableShape: readonly number[];
  /** [batch, …variableShape] @internal */
  denseTensor(features: FeatureTensors, variables: ColumnVariables): Output;
}

export interface IdsAndWeights {
  /** Ids from 0 up to the number of buckets; a negative id stands for nothing. */
  readonly ids: SparseTensor;
  /** Has the indices of the ids; default: 1 each. */
  readonly weights?: SparseTensor;
}

/** A column of ids: any number for each example. */
export interface CategoricalColumn extends FeatureColumn {
  readonly numBuckets: number;
  /** @internal */
  idsAndWeights(features: FeatureTensors): IdsAndWeights;
}

export const isDense = (column: unknown): column is DenseColumn =>
  column instanceof FeatureColumn && 'denseTensor' in column;

export const isCategorical = (column: unknown): column is CategoricalColumn =>
  column instanceof FeatureColumn && 'idsAndWeights' in column;
