/** Checks of lists of columns, and their order. */
import { invalid } from '../../base/errors/errors.js';
import { GraphKeys } from '../../tensorflow/variables/collections.js';
import { PartitionedVariable } from '../../tensorflow/variables/partitioned.js';
import type { Variable } from '../../tensorflow/variables/variable.js';
import type { Features } from '../input/dataset/parse-example.js';
import { describeGiven } from './check.js';
import { type ColumnVariables, FeatureColumn } from './feature-column.js';

/** The columns in the order of their names, as TensorFlow builds them. */
export function sortedColumns(what: string, given: unknown): readonly FeatureColumn[] {
  const columns = listOf(what, given);
  if (columns.length === 0) throw invalid(`${what} needs at least one column`);
  const byName = new Map<string, FeatureColumn>();
  for (const column of columns) {
    if (byName.has(column.name))
      throw invalid(`${what} has two columns named '${column.name}'`, {
        hint: 'Remove one of them, or give the feature a second key.',
      });
    byName.set(column.name, column);
  }
  return [...columns].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function listOf(what: string, given: unknown): readonly FeatureColumn[] {
  if (given instanceof FeatureColumn) return [given];
  const isIterable = typeof given === 'object' && given !== null && Symbol.iterator in given;
  if (!isIterable) throw invalid(`${what} needs a list of columns, it is ${describeGiven(given)}`);
  const columns = [...(given as Iterable<unknown>)];
  for (const column of columns) {
    if (column instanceof FeatureColumn) continue;
    throw invalid(`${what} has ${describeGiven(column)} among its columns`, {
      hint:
        typeof column === 'string'
          ? `Make a column of the feature, for example tf.featureColumn.numericColumn('${column}').`
          : 'Columns are made by the functions of tf.featureColumn; sharedEmbeddingColumns returns a list.',
    });
  }
  return columns as readonly FeatureColumn[];
}

/** How the features of columns are parsed: the specification for `tf.parseExample`. */
export function makeParseExampleSpec(featureColumns: Iterable<FeatureColumn>): Features {
  const spec: Record<string, Features[string]> = {};
  for (const column of listOf('makeParseExampleSpec', featureColumns)) {
    for (const [key, feature] of Object.entries(column.parseSpec())) {
      const known = spec[key];
      if (known !== undefined && JSON.stringify(known, plain) !== JSON.stringify(feature, plain))
        throw invalid(
          `Two columns parse the feature '${key}' differently: ${JSON.stringify(known, plain)} and ${JSON.stringify(feature, plain)}`,
          { hint: 'Give them the same dtype, shape and default, or write the feature under two keys.' },
        );
      spec[key] = feature;
    }
  }
  return spec;
}

const plain = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);

/** Options of `inputLayer` and `linearModel`. */
export interface ColumnsOptions {
  /** More collections for the variables; default: none beside those of global and model variables. */
  readonly weightCollections?: readonly string[];
  /** Whether optimizers change the variables; default: true. */
  readonly trainable?: boolean;
  /** Is filled with the variables of each column; default: not. */
  readonly colsToVars?: Map<FeatureColumn | 'bias', readonly Variable[]>;
}

/** How the variables of a column are made, and where they are reported. */
export function columnVariables(
  { weightCollections = [], trainable = true, colsToVars }: ColumnsOptions,
  column: FeatureColumn | 'bias',
): ColumnVariables {
  colsToVars?.set(column, []);
  return {
    trainable,
    collections: [...new Set([...weightCollections, GraphKeys.globalVariables, GraphKeys.modelVariables])],
    onVariable(variable) {
      const parts = variable instanceof PartitionedVariable ? variable.parts : [variable];
      colsToVars?.set(column, [...(colsToVars.get(column) ?? []), ...parts]);
    },
  };
}
