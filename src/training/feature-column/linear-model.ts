/** A linear model of columns, the wide part of a wide-and-deep model: TensorFlow 1's linear_model. */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { type Combiner, safeEmbeddingLookupSparse } from '../../tensorflow/layers/embedding-sparse.js';
import { takeScopeName } from '../../tensorflow/layers/layer-scope.js';
import type { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import { concat } from '../../tensorflow/ops/arrays.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import { addN, matMul } from '../../tensorflow/ops/math.js';
import { biasAdd } from '../../tensorflow/ops/nn.js';
import { sizeOf } from '../../tensorflow/tensor/shape.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';
import { zerosInitializer } from '../../tensorflow/variables/initializers.js';
import { getVariable, variableScope } from '../../tensorflow/variables/variable-scope.js';
import { checkPositiveOption } from './check.js';
import { type ColumnsOptions, columnVariables, sortedColumns } from './column-list.js';
import {
  type CategoricalColumn,
  type ColumnVariables,
  type DenseColumn,
  type FeatureColumn,
  isCategorical,
} from './feature-column.js';
import { FeatureTensors, type FeatureValues } from './feature-tensors.js';
import { asRows, checkBatch } from './input-layer.js';

export interface LinearModelOptions extends ColumnsOptions {
  /** The number of results of an example, such as classes; default: 1. */
  readonly units?: number;
  /** How the weights of the ids of one example are combined; default: 'sum'. */
  readonly sparseCombiner?: Combiner;
}

const OPTIONS: Names<LinearModelOptions> = {
  weightCollections: true,
  trainable: true,
  colsToVars: true,
  units: true,
  sparseCombiner: true,
};

/** A weight for each id and each number, and a bias: [batch, units]. Variables are in the scope `linear_model`. */
export function linearModel(
  features: FeatureValues,
  featureColumns: Iterable<DenseColumn | CategoricalColumn> | DenseColumn | CategoricalColumn,
  given: OrNull<LinearModelOptions> = {},
): Output {
  const options = knownOptions(given, OPTIONS, 'linearModel');
  const { units = 1, sparseCombiner = 'sum' } = options;
  checkPositiveOption('linearModel', 'units', units);
  if (!['sum', 'mean', 'sqrtn'].includes(sparseCombiner))
    throw invalid(`linearModel has an unknown sparseCombiner '${sparseCombiner}'; use sum, mean or sqrtn`);
  const columns = sortedColumns('linearModel', featureColumns);
  // As in TensorFlow, the scopes of columns are numbered within the caller's scope, not that of the model.
  const scope = takeScopeName('linear_model');
  const parts = columns
    .map((column) => ({ column, name: takeScopeName(column.scopeName) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return variableScope(scope, () => {
    const tensors = new FeatureTensors(features);
    const sums = parts.map(({ column, name }) =>
      variableScope(name, () =>
        weightedSum(column, tensors, units, sparseCombiner, columnVariables(options, column)),
      ),
    );
    checkBatch(
      sums,
      parts.map(({ column }) => column),
    );
    const { onVariable, ...made } = columnVariables(options, 'bias');
    const bias = getVariable('bias_weights', { shape: [units], initializer: zerosInitializer(), ...made });
    onVariable(bias);
    return biasAdd(addN(sums, { name: 'weighted_sum_no_bias' }), bias, { name: 'weighted_sum' });
  });
}

function weightedSum(
  column: FeatureColumn,
  features: FeatureTensors,
  units: number,
  combiner: Combiner,
  variables: ColumnVariables,
): Output {
  const { onVariable, ...made } = variables;
  const weightsOf = (rows: number) => {
    const weights = getVariable('weights', {
      shape: [rows, units],
      initializer: zerosInitializer(),
      ...made,
    });
    onVariable(weights);
    return weights;
  };
  if (!isCategorical(column)) {
    const dense = column as DenseColumn;
    const weights = weightsOf(sizeOf(dense.variableShape));
    return matMul(asRows(dense.denseTensor(features, variables), dense), weights, { name: 'weighted_sum' });
  }
  const weights = weightsOf(column.numBuckets);
  const { ids, weights: factors } = column.idsAndWeights(features);
  return safeEmbeddingLookupSparse(weights, asMatrix(ids), factors ? asMatrix(factors) : null, {
    combiner,
    name: 'weighted_sum',
  });
}

/** All ids of an example in one row. */
function asMatrix(x: SparseTensor): SparseTensor {
  if (x.rank === 2) return x;
  const first = raw.slice(x.denseShape, Tensor.of(Int32Array.of(0)), Tensor.of(Int32Array.of(1)));
  return x.reshape(concat([first, Tensor.of(BigInt64Array.of(-1n))], 0));
}
