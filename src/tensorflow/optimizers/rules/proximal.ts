/**
 * The base of the proximal optimizers: learning rate, and the strengths of the l1 and l2 penalties whose proximal map
 * follows each step.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../graph/operation.js';
import type { DType } from '../../tensor/dtype.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { Optimizer, type OptimizerOptions } from '../optimizer.js';

export interface ProximalOptions extends OptimizerOptions {
  /** The strength of the L1 penalty; default: 0. */
  readonly l1RegularizationStrength?: number;
  /** The strength of the L2 penalty; default: 0. */
  readonly l2RegularizationStrength?: number;
}

export abstract class ProximalOptimizer extends Optimizer {
  override readonly learningRate: Hyperparameter;
  readonly #l1: number;
  readonly #l2: number;

  constructor(learningRate: Hyperparameter, options: OrNull<ProximalOptions>, defaultName: string) {
    super(options, defaultName);
    this.learningRate = learningRate;
    this.#l1 = options.l1RegularizationStrength ?? 0;
    this.#l2 = options.l2RegularizationStrength ?? 0;
    checkHyperparameter(this.name, 'l1 strength', this.#l1, { min: 0 });
    checkHyperparameter(this.name, 'l2 strength', this.#l2, { min: 0 });
  }

  /** Learning rate, l1 and l2, in the order in which the update ops take them. */
  protected scalars(values: Hyperparameters, dtype: DType): readonly [rate: Output, l1: Output, l2: Output] {
    return [
      values.scalar(this.learningRate, dtype, 'learning_rate'),
      values.scalar(this.#l1, dtype, 'l1_regularization_strength'),
      values.scalar(this.#l2, dtype, 'l2_regularization_strength'),
    ];
  }
}
