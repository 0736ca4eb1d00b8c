/**
 * RMSProp, plain or centered.
 *
 *   s ← ρ·s + (1 − ρ)·g²
 *   c ← ρ·c + (1 − ρ)·g                     (centered only, else c² counts as 0)
 *   m ← μ·m + lr·g / √(s − c² + ε)
 *   w ← w − m
 *
 * Slots: `rms` (s) from 1, `mg` (c, centered only) from 0, `momentum` (m) from 0. A sparse gradient
 * touches only its own rows.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { DType } from '../../tensor/dtype.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { Optimizer, type OptimizerOptions, type SlotSpec } from '../optimizer.js';

export interface RmsPropOptions extends OptimizerOptions {
  /** The decay of the average of squared gradients; default: 0.9. */
  readonly decay?: Hyperparameter;
  /** The momentum; default: 0. */
  readonly momentum?: Hyperparameter;
  /** Keeps the divisor above 0; default: 1e-10. */
  readonly epsilon?: Hyperparameter;
  /** Divides by the standard deviation of the gradient instead of its magnitude. Default: false. */
  readonly centered?: boolean;
}

export class RmsPropOptimizer extends Optimizer {
  protected readonly slots: readonly SlotSpec[];
  readonly #centered: boolean;
  override readonly learningRate: Hyperparameter;
  readonly #decay: Hyperparameter;
  readonly #momentum: Hyperparameter;
  readonly #epsilon: Hyperparameter;

  constructor(learningRate: Hyperparameter, options: OrNull<RmsPropOptions> = {}) {
    super(options, 'RMSProp');
    this.#centered = options.centered ?? false;
    this.learningRate = learningRate;
    this.#decay = options.decay ?? 0.9;
    this.#momentum = options.momentum ?? 0;
    this.#epsilon = options.epsilon ?? 1e-10;
    checkHyperparameter(this.name, 'learning rate', learningRate);
    checkHyperparameter(this.name, 'decay', this.#decay);
    checkHyperparameter(this.name, 'momentum', this.#momentum);
    checkHyperparameter(this.name, 'epsilon', this.#epsilon);
    this.slots = [
      { slot: 'rms', initial: 1 },
      ...(this.#centered ? [{ slot: 'mg', initial: 0 }] : []),
      { slot: 'momentum', initial: 0 },
    ];
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    const { handle, mean, slots, scalars } = this.#parts(variable, values);
    const attrs = { useLocking: this.useLocking };
    return mean
      ? raw.resourceApplyCenteredRMSProp(handle, mean, ...slots, ...scalars, gradient, attrs)
      : raw.resourceApplyRMSProp(handle, ...slots, ...scalars, gradient, attrs);
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const { handle, mean, slots, scalars } = this.#parts(variable, values);
    const attrs = { useLocking: this.useLocking };
    const rows = [gradient.values, gradient.indices] as const;
    return mean
      ? raw.resourceSparseApplyCenteredRMSProp(handle, mean, ...slots, ...scalars, ...rows, attrs)
      : raw.resourceSparseApplyRMSProp(handle, ...slots, ...scalars, ...rows, attrs);
  }

  /** The arguments of the update ops, in their order. */
  #parts(variable: Variable, values: Hyperparameters) {
    return {
      handle: variable.handle,
      mean: this.#centered ? this.slotHandle(variable, 'mg') : undefined,
      slots: [this.slotHandle(variable, 'rms'), this.slotHandle(variable, 'momentum')] as const,
      scalars: this.#scalars(values, variable.dtype),
    };
  }

  #scalars(values: Hyperparameters, dtype: DType): [Output, Output, Output, Output] {
    return [
      values.scalar(this.learningRate, dtype, 'learning_rate'),
      values.scalar(this.#decay, dtype, 'decay'),
      values.scalar(this.#momentum, dtype, 'momentum'),
      values.scalar(this.#epsilon, dtype, 'epsilon'),
    ];
  }
}
