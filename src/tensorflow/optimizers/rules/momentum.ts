/**
 * Momentum.
 *
 *   m ← μ·m + g
 *   w ← w − lr·m                 with Nesterov:  w ← w − lr·(g + μ·m)
 *
 * Slots: `momentum`, from 0. A sparse gradient moves only its own rows, and only their momentum decays.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { DType } from '../../tensor/dtype.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { Optimizer, type OptimizerOptions, type SlotSpec } from '../optimizer.js';

export interface MomentumOptions extends OptimizerOptions {
  /** Whether to use Nesterov momentum; default: false. */
  readonly useNesterov?: boolean;
}

export class MomentumOptimizer extends Optimizer {
  protected readonly slots: readonly SlotSpec[] = [{ slot: 'momentum', initial: 0 }];
  override readonly learningRate: Hyperparameter;
  readonly #momentum: Hyperparameter;
  readonly #useNesterov: boolean;

  constructor(learningRate: Hyperparameter, momentum: Hyperparameter, options: OrNull<MomentumOptions> = {}) {
    super(options, 'Momentum');
    checkHyperparameter(this.name, 'learning rate', learningRate);
    checkHyperparameter(this.name, 'momentum', momentum);
    this.learningRate = learningRate;
    this.#momentum = momentum;
    this.#useNesterov = options.useNesterov ?? false;
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    const { rate, momentum } = this.#scalars(values, variable.dtype);
    const slot = this.slotHandle(variable, 'momentum');
    return raw.resourceApplyMomentum(variable.handle, slot, rate, gradient, momentum, this.#attrs());
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const { rate, momentum } = this.#scalars(values, variable.dtype);
    return raw.resourceSparseApplyMomentum(
      variable.handle,
      this.slotHandle(variable, 'momentum'),
      rate,
      gradient.values,
      gradient.indices,
      momentum,
      this.#attrs(),
    );
  }

  #attrs() {
    return { useLocking: this.useLocking, useNesterov: this.#useNesterov };
  }

  #scalars(values: Hyperparameters, dtype: DType) {
    return {
      rate: values.scalar(this.learningRate, dtype, 'learning_rate'),
      momentum: values.scalar(this.#momentum, dtype, 'momentum'),
    };
  }
}
