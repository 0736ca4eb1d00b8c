/**
 * Adadelta.
 *
 *   a ← ρ·a + (1 − ρ)·g²
 *   d = g · √(u + ε) / √(a + ε)
 *   u ← ρ·u + (1 − ρ)·d²
 *   w ← w − lr·d
 *
 * Slots: `accum` (a) and `accum_update` (u), from 0. A sparse gradient touches only its own rows.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { DType } from '../../tensor/dtype.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { Optimizer, type OptimizerOptions, type SlotSpec } from '../optimizer.js';

export interface AdadeltaOptions extends OptimizerOptions {
  /** The decay of the averages; default: 0.95. */
  readonly rho?: Hyperparameter;
  /** Keeps the divisor above 0; default: 1e-8. */
  readonly epsilon?: Hyperparameter;
}

export class AdadeltaOptimizer extends Optimizer {
  protected readonly slots: readonly SlotSpec[] = [
    { slot: 'accum', initial: 0 },
    { slot: 'accum_update', initial: 0 },
  ];
  override readonly learningRate: Hyperparameter;
  readonly #rho: Hyperparameter;
  readonly #epsilon: Hyperparameter;

  constructor(learningRate: Hyperparameter = 0.001, options: OrNull<AdadeltaOptions> = {}) {
    super(options, 'Adadelta');
    this.learningRate = learningRate;
    this.#rho = options.rho ?? 0.95;
    this.#epsilon = options.epsilon ?? 1e-8;
    checkHyperparameter(this.name, 'learning rate', learningRate);
    checkHyperparameter(this.name, 'rho', this.#rho);
    checkHyperparameter(this.name, 'epsilon', this.#epsilon);
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    const { rate, rho, epsilon } = this.#scalars(values, variable.dtype);
    const [accum, update] = this.#handles(variable);
    return raw.resourceApplyAdadelta(variable.handle, accum, update, rate, rho, epsilon, gradient, {
      useLocking: this.useLocking,
    });
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const { rate, rho, epsilon } = this.#scalars(values, variable.dtype);
    const [accum, update] = this.#handles(variable);
    return raw.resourceSparseApplyAdadelta(
      variable.handle,
      accum,
      update,
      rate,
      rho,
      epsilon,
      gradient.values,
      gradient.indices,
      { useLocking: this.useLocking },
    );
  }

  #handles(variable: Variable) {
    return [this.slotHandle(variable, 'accum'), this.slotHandle(variable, 'accum_update')] as const;
  }

  #scalars(values: Hyperparameters, dtype: DType) {
    return {
      rate: values.scalar(this.learningRate, dtype, 'lr'),
      rho: values.scalar(this.#rho, dtype, 'rho'),
      epsilon: values.scalar(this.#epsilon, dtype, 'epsilon'),
    };
  }
}
