/** The dense columns of a batch side by side, as the input of a deep model: TensorFlow 1's input_layer. */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { takeScopeName } from '../../tensorflow/layers/layer-scope.js';
import { concat, reshape } from '../../tensorflow/ops/arrays.js';
import { sizeOf } from '../../tensorflow/tensor/shape.js';
import { variableScope } from '../../tensorflow/variables/variable-scope.js';
import { type ColumnsOptions, columnVariables, sortedColumns } from './column-list.js';
import { type DenseColumn, type FeatureColumn, isDense } from './feature-column.js';
import { FeatureTensors, type FeatureValues } from './feature-tensors.js';

export interface InputLayerOptions extends ColumnsOptions {
  /** Is filled with the part of each column; default: not. */
  readonly colsToOutputTensors?: Map<FeatureColumn, Output>;
}

const OPTIONS: Names<InputLayerOptions> = {
  weightCollections: true,
  trainable: true,
  colsToVars: true,
  colsToOutputTensors: true,
};

/** [batch, sum of the sizes of the columns], in the order of their names. Variables are in the scope `input_layer`. */
export function inputLayer(
  features: FeatureValues,
  featureColumns: Iterable<DenseColumn> | DenseColumn,
  given: OrNull<InputLayerOptions> = {},
): Output {
  const options = knownOptions(given, OPTIONS, 'inputLayer');
  const columns = sortedColumns('inputLayer', featureColumns);
  for (const column of columns) checkDense(column);
  return variableScope(takeScopeName('input_layer'), () => {
    const tensors = new FeatureTensors(features);
    const parts = (columns as readonly DenseColumn[]).map((column) =>
      variableScope(takeScopeName(column.scopeName), () => {
        const tensor = column.denseTensor(tensors, columnVariables(options, column));
        const part = asRows(tensor, column);
        options.colsToOutputTensors?.set(column, part);
        return part;
      }),
    );
    checkBatch(parts, columns);
    return concat(parts, 1);
  });
}

function checkDense(column: FeatureColumn): void {
  if (isDense(column)) return;
  throw invalid(`inputLayer needs dense columns; ${column} is categorical`, {
    hint: 'Use tf.featureColumn.embeddingColumn or indicatorColumn of it.',
  });
}

/** [batch, elements of one example] */
export const asRows = (tensor: Output, column: DenseColumn): Output =>
  reshape(tensor, [-1, sizeOf(column.variableShape)]).setShape([
    tensor.shape?.[0] ?? null,
    sizeOf(column.variableShape),
  ]);

/** Features that belong to different batches. */
export function checkBatch(parts: readonly Output[], columns: readonly FeatureColumn[]): void {
  const known = parts.findIndex((part) => typeof part.shape?.[0] === 'number');
  if (known < 0) return;
  const size = parts[known]?.shape?.[0];
  const other = parts.findIndex((part) => typeof part.shape?.[0] === 'number' && part.shape[0] !== size);
  if (other < 0) return;
  throw invalid(
    `The columns have batches of different sizes: ${size} in '${columns[known]?.name}', ` +
      `${parts[other]?.shape?.[0]} in '${columns[other]?.name}'`,
  );
}
