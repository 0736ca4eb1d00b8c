/** Padding of elements of different sizes to one batch. */
import { invalid } from '../../../base/errors/errors.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { describe, type LeafSpec, leavesOf, type Spec } from './structure.js';

export interface PaddedBatchOptions {
  /**
   * The shape of each tensor of an element after padding, in the order of the element's tensors; null for a dimension
   * means the largest in the batch. Default: all unknown dimensions are padded.
   */
  readonly paddedShapes?: readonly PartialShape[];
  /** The padding value of each tensor; default: 0, '' or false. */
  readonly paddingValues?: readonly (number | bigint | string | boolean)[];
  /** Whether to drop a last batch that is smaller; default: false. */
  readonly dropRemainder?: boolean;
}

export function padding(spec: Spec, options: PaddedBatchOptions) {
  const leaves = leavesOf(spec);
  const shapes = leaves.map((leaf, i) => {
    if (leaf.kind === 'sparse')
      throw invalid(`Sparse tensors cannot be padded: ${describe(spec)}. Use batch, or toDense.`);
    const shape = options.paddedShapes ? options.paddedShapes[i] : leaf.shape;
    if (!shape)
      throw invalid(
        `paddedBatch needs paddedShapes: the rank of tensor ${i} of ${describe(spec)} is unknown`,
      );
    return shape;
  });
  return {
    shapes,
    paddedShapes: shapes.map((shape) =>
      Tensor.of(
        BigInt64Array.from(shape, (dim) => BigInt(dim ?? -1)),
        { shape: [shape.length] },
      ),
    ),
    paddingValues: leaves.map((leaf, i) => fillerOf(leaf, options.paddingValues?.[i])),
  };
}

function fillerOf({ dtype }: LeafSpec, value: number | bigint | string | boolean | undefined): Tensor {
  const filler = value ?? (dtype === 'string' ? '' : dtype === 'bool' ? false : 0);
  return Tensor.of(filler, { dtype });
}
