/**
 * Ids as the combined rows of a table: TensorFlow's embedding_column and shared_embedding_columns. The table is looked up
 * sparsely: a step reads, and its gradient changes, the rows of the batch only.
 */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import { currentGraph } from '../../tensorflow/graph/graph.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import {
  type Combiner,
  embeddingLookupSparse,
  safeEmbeddingLookupSparse,
} from '../../tensorflow/layers/embedding-sparse.js';
import { formatShape } from '../../tensorflow/tensor/shape.js';
import { type Initializer, truncatedNormalInitializer } from '../../tensorflow/variables/initializers.js';
import type { PartitionedVariable } from '../../tensorflow/variables/partitioned.js';
import type { Variable } from '../../tensorflow/variables/variable.js';
import { getVariable } from '../../tensorflow/variables/variable-scope.js';
import { initFromCheckpoint } from '../../tensorflow/variables/warm-start.js';
import type { Features } from '../input/dataset/parse-example.js';
import { checkCategorical, checkPositiveOption } from './check.js';
import {
  type CategoricalColumn,
  type ColumnVariables,
  type DenseColumn,
  FeatureColumn,
} from './feature-column.js';
import type { FeatureTensors } from './feature-tensors.js';
import { WeightedColumn } from './weighted.js';

export interface EmbeddingColumnOptions {
  /** How the rows of one example are combined; default: 'mean'. */
  readonly combiner?: Combiner;
  /** The initializer of the table; default: a truncated normal distribution with deviation 1/√dimension. */
  readonly initializer?: Initializer;
  /** A checkpoint with initial values of the table; needs `tensorNameInCkpt`. Default: none. */
  readonly ckptToLoadFrom?: string;
  /** The name of the table in `ckptToLoadFrom`. */
  readonly tensorNameInCkpt?: string;
  /** Rows with a larger Euclidean norm are scaled down to it; default: no limit. */
  readonly maxNorm?: number;
  /** Whether optimizers change the table; default: true. */
  readonly trainable?: boolean;
  /** Whether negative ids, empty examples and weights below 0 are looked for; default: true. */
  readonly useSafeEmbeddingLookup?: boolean;
}

export interface SharedEmbeddingOptions extends EmbeddingColumnOptions {
  /** The collection that has the table, and the scope of its variable; default: made of the names of the columns. */
  readonly sharedEmbeddingCollectionName?: string;
}

const EMBEDDING: Names<EmbeddingColumnOptions> = {
  combiner: true,
  initializer: true,
  ckptToLoadFrom: true,
  tensorNameInCkpt: true,
  maxNorm: true,
  trainable: true,
  useSafeEmbeddingLookup: true,
};
const SHARED: Names<SharedEmbeddingOptions> = { ...EMBEDDING, sharedEmbeddingCollectionName: true };
const COMBINERS: readonly Combiner[] = ['sum', 'mean', 'sqrtn'];

/** A dense column of `dimension` numbers. */
export function embeddingColumn(
  categoricalColumn: CategoricalColumn,
  dimension: number,
  given: OrNull<EmbeddingColumnOptions> = {},
): EmbeddingColumn {
  checkCategorical('embeddingColumn', categoricalColumn);
  const options = knownOptions(given, EMBEDDING, `The embedding of '${categoricalColumn.name}'`);
  return new EmbeddingColumn(categoricalColumn, dimension, options);
}

/** Dense columns of `dimension` numbers from one table, for features with the same vocabulary. */
export function sharedEmbeddingColumns(
  categoricalColumns: readonly CategoricalColumn[],
  dimension: number,
  given: OrNull<SharedEmbeddingOptions> = {},
): EmbeddingColumn[] {
  if (!Array.isArray(categoricalColumns) || categoricalColumns.length === 0)
    throw invalid('sharedEmbeddingColumns needs a list of categorical columns');
  const columns = categoricalColumns as readonly CategoricalColumn[];
  for (const column of columns) checkCategorical('sharedEmbeddingColumns', column);
  const { sharedEmbeddingCollectionName, ...options } = knownOptions(given, SHARED, 'sharedEmbeddingColumns');
  const names = columns.map(({ name }) => name).sort();
  for (const column of columns.slice(1)) checkSameIds(columns[0] as CategoricalColumn, column);
  const shared = sharedEmbeddingCollectionName ?? `${names.join('_')}_shared_embedding`;
  return columns.map((column) => new EmbeddingColumn(column, dimension, options, shared));
}

function checkSameIds(first: CategoricalColumn, other: CategoricalColumn): void {
  const hint = 'Columns that share a table must give the same ids for the same words.';
  const ids = (column: CategoricalColumn): CategoricalColumn =>
    column instanceof WeightedColumn ? ids(column.categoricalColumn) : column;
  if (ids(first).constructor !== ids(other).constructor)
    throw invalid(`sharedEmbeddingColumns: ${first} and ${other} are of different kinds`, { hint });
  if (first.numBuckets !== other.numBuckets)
    throw invalid(
      `sharedEmbeddingColumns: '${first.name}' has ${first.numBuckets} ids, '${other.name}' has ${other.numBuckets}`,
      { hint },
    );
}

export class EmbeddingColumn extends FeatureColumn implements DenseColumn {
  readonly categoricalColumn: CategoricalColumn;
  readonly dimension: number;
  /** The collection with the table that several columns share. */
  readonly sharedAs: string | undefined;
  readonly #options: EmbeddingColumnOptions;

  /** @internal */
  constructor(
    column: CategoricalColumn,
    dimension: number,
    options: EmbeddingColumnOptions,
    sharedAs?: string,
  ) {
    super();
    const what = `The embedding of '${column.name}'`;
    checkPositiveOption(what, 'dimension', dimension);
    const { combiner = 'mean', initializer, ckptToLoadFrom, tensorNameInCkpt, maxNorm } = options;
    if (!COMBINERS.includes(combiner))
      throw invalid(`${what} has an unknown combiner '${combiner}'; use one of ${COMBINERS.join(', ')}`);
    if (initializer !== undefined && typeof initializer !== 'function')
      throw invalid(`${what} has an initializer that is not a function`, {
        hint: 'For example tf.truncatedNormalInitializer(0, 0.1).',
      });
    if ((ckptToLoadFrom === undefined) !== (tensorNameInCkpt === undefined))
      throw invalid(`${what} needs both ckptToLoadFrom and tensorNameInCkpt, or none of them`);
    if (maxNorm !== undefined && !(maxNorm > 0))
      throw invalid(`${what}: maxNorm must be above 0, it is ${maxNorm}`);
    this.categoricalColumn = column;
    this.dimension = dimension;
    this.sharedAs = sharedAs;
    this.#options = options;
  }

  get name(): string {
    return `${this.categoricalColumn.name}_${this.sharedAs === undefined ? '' : 'shared_'}embedding`;
  }

  override get scopeName(): string {
    return this.sharedAs ?? this.name;
  }

  get variableShape(): readonly number[] {
    return [this.dimension];
  }

  parseSpec(): Features {
    return this.categoricalColumn.parseSpec();
  }

  /** @internal */
  denseTensor(features: FeatureTensors, variables: ColumnVariables): Output {
    const { ids, weights } = this.categoricalColumn.idsAndWeights(features);
    const table = this.sharedAs === undefined ? this.#makeTable(variables) : this.#sharedTable(variables);
    const { combiner = 'mean', maxNorm, ckptToLoadFrom, tensorNameInCkpt } = this.#options;
    if (ckptToLoadFrom !== undefined && tensorNameInCkpt !== undefined)
      initFromCheckpoint(ckptToLoadFrom, { [tensorNameInCkpt]: table });
    const isSafe = (this.#options.useSafeEmbeddingLookup ?? true) || (ids.rank ?? 3) > 2;
    const lookUp = isSafe ? safeEmbeddingLookupSparse : embeddingLookupSparse;
    return lookUp(table, ids, weights ?? null, {
      combiner,
      partitionStrategy: 'div',
      name: `${this.name}_weights`,
      ...(maxNorm === undefined ? {} : { maxNorm }),
    });
  }

  #makeTable({ trainable, collections, onVariable }: ColumnVariables): Variable | PartitionedVariable {
    const { initializer, trainable: own = true } = this.#options;
    const table = getVariable('embedding_weights', {
      shape: [this.categoricalColumn.numBuckets, this.dimension],
      initializer: initializer ?? truncatedNormalInitializer(0, 1 / Math.sqrt(this.dimension)),
      trainable: own && trainable,
      collections,
    });
    onVariable(table);
    return table;
  }

  /** The first column that is used in a graph makes the table. */
  #sharedTable(variables: ColumnVariables): Variable | PartitionedVariable {
    const graph = currentGraph();
    const name = this.sharedAs as string;
    const [known, ...others] = graph.getCollection<Variable | PartitionedVariable>(name);
    if (known === undefined) {
      const table = this.#makeTable(variables);
      graph.addToCollection(name, table);
      return table;
    }
    const hint = 'Set sharedEmbeddingCollectionName to a name that the graph does not use.';
    if (others.length > 0)
      throw invalid(`The collection '${name}' of shared embeddings has ${others.length + 1} variables`, {
        hint,
      });
    const shape = formatShape([this.categoricalColumn.numBuckets, this.dimension]);
    if (formatShape(known.shape) !== shape)
      throw invalid(
        `The shared table '${known.name}' has shape ${formatShape(known.shape)}; '${this.name}' needs ${shape}`,
        { hint },
      );
    return known;
  }
}
