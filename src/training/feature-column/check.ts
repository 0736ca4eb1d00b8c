/** Checks of the arguments of columns. Messages name the column or the feature. */
import { invalid } from '../../base/errors/errors.js';
import { type DType, isFloating, isInteger } from '../../tensorflow/tensor/dtype.js';
import type { FeatureType } from '../input/dataset/parse-example.js';
import { type CategoricalColumn, FeatureColumn, isCategorical } from './feature-column.js';

export function checkKey(what: string, key: unknown): void {
  if (typeof key === 'string' && key !== '') return;
  throw invalid(`${what}: the key of a feature is a name, it is ${describeGiven(key)}`);
}

export function checkPositiveOption(column: string, what: string, value: unknown): void {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return;
  throw invalid(`${column}: ${what} must be a positive integer, it is ${describeGiven(value)}`);
}

export function checkCategorical(what: string, column: unknown): asserts column is CategoricalColumn {
  if (isCategorical(column)) return;
  throw invalid(`${what} needs a categorical column; ${describeGiven(column)} is none`, {
    hint:
      column instanceof FeatureColumn
        ? 'Ids come from tf.featureColumn.bucketizedColumn, crossedColumn or one of the categoricalColumnWith… functions.'
        : 'Make a column of the key first, for example with tf.featureColumn.categoricalColumnWithHashBucket.',
  });
}

export const isText = (dtype: DType): boolean => dtype === 'string';

export function checkNumber(column: string, dtype: DType): void {
  if (isInteger(dtype) || isFloating(dtype)) return;
  throw invalid(`${column} has dtype ${dtype}; it must be a type of numbers`);
}

export function checkStringOrInteger(column: string, dtype: DType): void {
  if (isText(dtype) || isInteger(dtype)) return;
  throw invalid(`${column} has dtype ${dtype}; it must be 'string' or a type of integers`, {
    hint: 'To use numbers as categories, divide them into buckets: tf.featureColumn.bucketizedColumn.',
  });
}

/** A feature must be text if the column is, and integers otherwise. */
export function checkFeatureDtype(key: string, column: DType, feature: DType): void {
  checkStringOrInteger(`Feature '${key}'`, feature);
  if (isText(column) === isText(feature)) return;
  throw invalid(`The column of feature '${key}' has dtype ${column}, the feature is ${feature}`, {
    hint: `Set the dtype of the column to '${isText(feature) ? 'string' : 'int64'}', or convert the feature.`,
  });
}

/** The types that an Example can hold. */
export function parsedType(key: string, dtype: DType): FeatureType {
  if (dtype === 'float32' || dtype === 'int64' || dtype === 'string') return dtype;
  throw invalid(`Feature '${key}' has dtype ${dtype}, which an Example cannot hold`, {
    hint: `Use ${isInteger(dtype) ? "'int64'" : "'float32'"} as the dtype of the column.`,
  });
}

export function describeGiven(value: unknown): string {
  if (value instanceof FeatureColumn) return String(value);
  if (typeof value === 'string') return `'${value}'`;
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? 'a list' : `a ${value.constructor?.name ?? 'value'}`;
  return String(value);
}
