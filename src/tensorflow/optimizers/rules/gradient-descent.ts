/**
 * Gradient descent.
 *
 *   w ← w − lr·g
 *
 * Slots: none. Repeated rows of a sparse gradient are added one after another, as in TensorFlow; with many rows
 * it uses several threads, and the order of additions may differ between runs.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { mul, neg } from '../../ops/math.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { Optimizer, type OptimizerOptions, type SlotSpec } from '../optimizer.js';

export class GradientDescentOptimizer extends Optimizer {
  protected readonly slots: readonly SlotSpec[] = [];
  protected override readonly takesDuplicates = true;
  override readonly learningRate: Hyperparameter;

  constructor(learningRate: Hyperparameter, options: OrNull<OptimizerOptions> = {}) {
    super(options, 'GradientDescent');
    checkHyperparameter(this.name, 'learning rate', learningRate);
    this.learningRate = learningRate;
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    return raw.resourceApplyGradientDescent(
      variable.handle,
      values.scalar(this.learningRate, variable.dtype, 'learning_rate'),
      gradient,
      { useLocking: this.useLocking },
    );
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const rate = values.scalar(this.learningRate, variable.dtype, 'learning_rate');
    return variable.scatterAdd(gradient.indices, mul(neg(gradient.values), rate));
  }
}
