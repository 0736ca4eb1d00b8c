/**
 * Proximal gradient descent: a plain step, then the proximal map of l1 and l2 penalties.
 *
 *   w ← w − lr·g
 *   w ← sign(w) · max(|w| − lr·λ₁, 0) / (1 + lr·λ₂)
 *
 * Slots: none. A sparse gradient touches only its own rows.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import type { SlotSpec } from '../optimizer.js';
import { ProximalOptimizer, type ProximalOptions } from './proximal.js';

export type ProximalGradientDescentOptions = ProximalOptions;

export class ProximalGradientDescentOptimizer extends ProximalOptimizer {
  protected readonly slots: readonly SlotSpec[] = [];

  constructor(learningRate: Hyperparameter, options: OrNull<ProximalGradientDescentOptions> = {}) {
    super(learningRate, options, 'ProximalGradientDescent');
    checkHyperparameter(this.name, 'learning rate', learningRate);
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    const scalars = this.scalars(values, variable.dtype);
    return raw.resourceApplyProximalGradientDescent(variable.handle, ...scalars, gradient, {
      useLocking: this.useLocking,
    });
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const scalars = this.scalars(values, variable.dtype);
    const rows = [gradient.values, gradient.indices] as const;
    return raw.resourceSparseApplyProximalGradientDescent(variable.handle, ...scalars, ...rows, {
      useLocking: this.useLocking,
    });
  }
}
