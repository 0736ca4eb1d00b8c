/**
 * Proximal Adagrad: Adagrad whose step is followed by the proximal map of l1 and l2 penalties, which makes
 * small weights exactly zero.
 *
 *   a ← a + g²,  η = lr / √a
 *   w ← w − η·g
 *   w ← sign(w) · max(|w| − η·λ₁, 0) / (1 + η·λ₂)
 *
 * Slots: `accumulator`, from 0.1. A sparse gradient touches only its own rows.
 */
import type { IndexedSlices } from '../gradients/index.js';
import type { Operation, Output } from '../graph/operation.js';
import * as raw from '../ops/generated/index.js';
import type { DType } from '../tensor/dtype.js';
import type { Variable } from '../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from './hyperparameters.js';
import { Optimizer, type OptimizerOptions, type SlotSpec } from './optimizer.js';

export interface ProximalAdagradOptions extends OptimizerOptions {
  readonly initialAccumulatorValue?: number;
  readonly l1RegularizationStrength?: number;
  readonly l2RegularizationStrength?: number;
}

export class ProximalAdagradOptimizer extends Optimizer {
  protected readonly slots: readonly SlotSpec[];
  readonly #learningRate: Hyperparameter;
  readonly #l1: number;
  readonly #l2: number;

  constructor(learningRate: Hyperparameter, options: ProximalAdagradOptions = {}) {
    super(options, 'ProximalAdagrad');
    const initial = options.initialAccumulatorValue ?? 0.1;
    this.#learningRate = learningRate;
    this.#l1 = options.l1RegularizationStrength ?? 0;
    this.#l2 = options.l2RegularizationStrength ?? 0;
    checkHyperparameter(this.name, 'learning rate', learningRate, { above: 0 });
    checkHyperparameter(this.name, 'initial accumulator value', initial, { above: 0 });
    checkHyperparameter(this.name, 'l1 strength', this.#l1, { min: 0 });
    checkHyperparameter(this.name, 'l2 strength', this.#l2, { min: 0 });
    this.slots = [{ slot: 'accumulator', initial }];
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    const { rate, l1, l2 } = this.#scalars(values, variable.dtype);
    const accumulator = this.slotHandle(variable, 'accumulator');
    return raw.resourceApplyProximalAdagrad(variable.handle, accumulator, rate, l1, l2, gradient, {
      useLocking: this.useLocking,
    });
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const { rate, l1, l2 } = this.#scalars(values, variable.dtype);
    return raw.resourceSparseApplyProximalAdagrad(
      variable.handle,
      this.slotHandle(variable, 'accumulator'),
      rate,
      l1,
      l2,
      gradient.values,
      gradient.indices,
      { useLocking: this.useLocking },
    );
  }

  #scalars(values: Hyperparameters, dtype: DType) {
    return {
      rate: values.scalar(this.#learningRate, dtype, 'learning_rate'),
      l1: values.scalar(this.#l1, dtype, 'l1_regularization_strength'),
      l2: values.scalar(this.#l2, dtype, 'l2_regularization_strength'),
    };
  }
}
