/**
 * Adagrad.
 *
 *   a ← a + g²
 *   w ← w − lr·g / √a
 *
 * Slots: `accumulator`, from 0.1. A sparse gradient touches only its own rows.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { Optimizer, type OptimizerOptions, type SlotSpec } from '../optimizer.js';

export interface AdagradOptions extends OptimizerOptions {
  /** The initial value of the accumulators; default: 0.1. */
  readonly initialAccumulatorValue?: number;
}

export class AdagradOptimizer extends Optimizer {
  protected readonly slots: readonly SlotSpec[];
  override readonly learningRate: Hyperparameter;

  constructor(learningRate: Hyperparameter, options: OrNull<AdagradOptions> = {}) {
    super(options, 'Adagrad');
    const initial = options.initialAccumulatorValue ?? 0.1;
    checkHyperparameter(this.name, 'learning rate', learningRate);
    checkHyperparameter(this.name, 'initial accumulator value', initial, { above: 0 });
    this.learningRate = learningRate;
    this.slots = [{ slot: 'accumulator', initial }];
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    return raw.resourceApplyAdagrad(
      variable.handle,
      this.slotHandle(variable, 'accumulator'),
      values.scalar(this.learningRate, variable.dtype, 'learning_rate'),
      gradient,
      { useLocking: this.useLocking },
    );
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    return raw.resourceSparseApplyAdagrad(
      variable.handle,
      this.slotHandle(variable, 'accumulator'),
      values.scalar(this.learningRate, variable.dtype, 'learning_rate'),
      gradient.values,
      gradient.indices,
      { useLocking: this.useLocking },
    );
  }
}
