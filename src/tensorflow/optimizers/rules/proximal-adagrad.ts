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
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import type { SlotSpec } from '../optimizer.js';
import { ProximalOptimizer, type ProximalOptions } from './proximal.js';

export interface ProximalAdagradOptions extends ProximalOptions {
  /** The initial value of the accumulators; default: 0.1. */
  readonly initialAccumulatorValue?: number;
}

export class ProximalAdagradOptimizer extends ProximalOptimizer {
  protected readonly slots: readonly SlotSpec[];

  constructor(learningRate: Hyperparameter, options: OrNull<ProximalAdagradOptions> = {}) {
    super(learningRate, options, 'ProximalAdagrad');
    const initial = options.initialAccumulatorValue ?? 0.1;
    checkHyperparameter(this.name, 'learning rate', learningRate, { above: 0 });
    checkHyperparameter(this.name, 'initial accumulator value', initial, { above: 0 });
    this.slots = [{ slot: 'accumulator', initial }];
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    const accumulator = this.slotHandle(variable, 'accumulator');
    const scalars = this.scalars(values, variable.dtype);
    return raw.resourceApplyProximalAdagrad(variable.handle, accumulator, ...scalars, gradient, {
      useLocking: this.useLocking,
    });
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const accumulator = this.slotHandle(variable, 'accumulator');
    const scalars = this.scalars(values, variable.dtype);
    const rows = [gradient.values, gradient.indices] as const;
    return raw.resourceSparseApplyProximalAdagrad(variable.handle, accumulator, ...scalars, ...rows, {
      useLocking: this.useLocking,
    });
  }
}
