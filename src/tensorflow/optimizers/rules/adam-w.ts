/**
 * Adam with decoupled weight decay.
 *
 *   w ← w − lr·λ·w
 *   then as Adam
 *
 * Follows Keras (`keras.optimizers.AdamW`), including its defaults: the decay is scaled by the learning rate
 * and applies to all rows of a table, including those without a gradient. TensorFlow 1's contrib optimizer of
 * the same name did neither. Unlike Keras, repeated rows of a sparse gradient are summed before they are squared,
 * as in all other optimizers here. Slots are Adam's, under the name `AdamW`.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import { mul } from '../../ops/math.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { AdamOptimizer, type AdamOptions } from './adam.js';

export interface AdamWOptions extends AdamOptions {
  /** The weight decay per step, times the learning rate; default: 0.004. */
  readonly weightDecay?: Hyperparameter;
  /** Which variables decay (default: all). Exclude biases and normalisation scales. */
  readonly decays?: (variable: Variable) => boolean;
}

export class AdamWOptimizer extends AdamOptimizer {
  readonly #weightDecay: Hyperparameter;
  readonly #decays: (variable: Variable) => boolean;

  constructor(learningRate: Hyperparameter = 0.001, options: OrNull<AdamWOptions> = {}) {
    super(learningRate, { epsilon: 1e-7, ...options }, 'AdamW');
    this.#weightDecay = options.weightDecay ?? 0.004;
    this.#decays = options.decays ?? (() => true);
    checkHyperparameter(this.name, 'weight decay', this.#weightDecay, { min: 0 });
  }

  protected override applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    return this.#afterDecay(gradient, variable, values, () => super.applyDense(gradient, variable, values));
  }

  protected override applySparse(
    gradient: IndexedSlices,
    variable: Variable,
    values: Hyperparameters,
  ): Operation {
    return this.#afterDecay(gradient.values, variable, values, () =>
      super.applySparse(gradient, variable, values),
    );
  }

  /** The weights decay between the computation of the gradient and its application. */
  #afterDecay(
    gradient: Output,
    variable: Variable,
    values: Hyperparameters,
    apply: () => Operation,
  ): Operation {
    if (!this.#decays(variable)) return apply();
    const { graph, dtype } = variable;
    const rate = values.scalar(this.learningRate, dtype, 'learning_rate');
    const weightDecay = values.scalar(this.#weightDecay, dtype, 'weight_decay');
    const decayed = graph.controlDependencies([gradient], () =>
      variable.assignSub(mul(mul(variable.read(), weightDecay), rate)),
    );
    return graph.controlDependencies([decayed], apply);
  }
}
