/**
 * FTRL-proximal, with p the learning-rate power (default: −0.5) and λ₂′ = λ₂ + β / (2·lr).
 *
 *   a′ = a + g²
 *   σ = (a′^−p − a^−p) / lr
 *   z ← z + g − σ·w                  (with shrinkage s, g is g + 2·s·w here, but not in a)
 *   a ← a′
 *   w ← 0 where |z| ≤ λ₁, else (sign(z)·λ₁ − z) / (a^−p / lr + 2·λ₂′)
 *
 * Slots: `accum` (a) from 0.1, `linear` (z) from 0. A sparse gradient touches only its own rows, in the
 * table and in both slots.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { add, div, maximum, mul } from '../../ops/math.js';
import type { DType } from '../../tensor/dtype.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { Optimizer, type OptimizerOptions, type SlotSpec } from '../optimizer.js';
import { isNarrow, updateRows } from './ftrl-rows.js';

export interface FtrlOptions extends OptimizerOptions {
  /** How the learning rate decreases: 0 keeps it constant. Default: -0.5. */
  readonly learningRatePower?: number;
  /** The initial value of the accumulators; default: 0.1. */
  readonly initialAccumulatorValue?: number;
  /** The strength of the L1 penalty; default: 0. */
  readonly l1RegularizationStrength?: number;
  /** The strength of the L2 penalty that stabilizes the updates; default: 0. */
  readonly l2RegularizationStrength?: number;
  /** The strength of the L2 penalty on the magnitude of the weights; default: 0. */
  readonly l2ShrinkageRegularizationStrength?: number;
  /** β of the FTRL paper; default: 0. */
  readonly beta?: number;
  /** The suffix of the accumulators' names; default: the optimizer's name. */
  readonly accumName?: string;
  /** The suffix of the linear terms' names; default: the optimizer's name, made unique. */
  readonly linearName?: string;
}

/** Keeps the division by a learning rate finite. */
const TINY_RATE = 1e-36;

export class FtrlOptimizer extends Optimizer {
  protected readonly slots: readonly SlotSpec[];
  override readonly learningRate: Hyperparameter;
  readonly #power: number;
  readonly #l1: number;
  readonly #l2: number;
  readonly #shrinkage: number;
  readonly #beta: number;

  constructor(learningRate: Hyperparameter, options: OrNull<FtrlOptions> = {}) {
    super(options, 'Ftrl');
    const initial = options.initialAccumulatorValue ?? 0.1;
    this.learningRate = learningRate;
    this.#power = options.learningRatePower ?? -0.5;
    this.#l1 = options.l1RegularizationStrength ?? 0;
    this.#l2 = options.l2RegularizationStrength ?? 0;
    this.#shrinkage = options.l2ShrinkageRegularizationStrength ?? 0;
    this.#beta = options.beta ?? 0;
    checkHyperparameter(this.name, 'learning rate', learningRate, { above: 0 });
    checkHyperparameter(this.name, 'learning-rate power', this.#power, { max: 0 });
    checkHyperparameter(this.name, 'initial accumulator value', initial, { min: 0 });
    checkHyperparameter(this.name, 'l1 strength', this.#l1, { min: 0 });
    checkHyperparameter(this.name, 'l2 strength', this.#l2, { min: 0 });
    checkHyperparameter(this.name, 'l2 shrinkage strength', this.#shrinkage, { min: 0 });
    checkHyperparameter(this.name, 'beta', this.#beta, { min: 0 });
    this.slots = [
      { slot: 'accum', initial, suffix: options.accumName ?? undefined },
      { slot: 'linear', initial: 0, suffix: options.linearName ?? undefined },
    ];
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    const [accum, linear] = this.#handles(variable);
    const { rate, l1, l2, power, shrinkage } = this.#scalars(values, variable.dtype);
    const attrs = { useLocking: this.useLocking };
    const { handle } = variable;
    return shrinkage
      ? raw.resourceApplyFtrlV2(handle, accum, linear, gradient, rate, l1, l2, shrinkage, power, attrs)
      : raw.resourceApplyFtrl(handle, accum, linear, gradient, rate, l1, l2, power, attrs);
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const [accum, linear] = this.#handles(variable);
    const { rate, l1, l2, power, shrinkage } = this.#scalars(values, variable.dtype);
    const attrs = { useLocking: this.useLocking };
    const { handle } = variable;
    const { values: g, indices } = gradient;
    if (!shrinkage && this.#power === -0.5 && isNarrow(variable)) {
      const table = { variable, accum: this.slot(variable, 'accum'), linear: this.slot(variable, 'linear') };
      return updateRows(table, gradient, { rate, l1, l2, hasL1: this.#l1 !== 0, hasL2: this.#hasL2 });
    }
    return shrinkage
      ? raw.resourceSparseApplyFtrlV2(
          handle,
          accum,
          linear,
          g,
          indices,
          rate,
          l1,
          l2,
          shrinkage,
          power,
          attrs,
        )
      : raw.resourceSparseApplyFtrl(handle, accum, linear, g, indices, rate, l1, l2, power, attrs);
  }

  get #hasL2(): boolean {
    return this.#l2 !== 0 || this.#beta !== 0;
  }

  #handles(variable: Variable) {
    return [this.slotHandle(variable, 'accum'), this.slotHandle(variable, 'linear')] as const;
  }

  #scalars(values: Hyperparameters, dtype: DType) {
    const rate = values.scalar(this.learningRate, dtype, 'learning_rate');
    const l2 = values.scalar(this.#l2, dtype, 'l2_regularization_strength');
    return {
      rate,
      l1: values.scalar(this.#l1, dtype, 'l1_regularization_strength'),
      l2: this.#beta === 0 ? l2 : add(l2, div(this.#beta, mul(2, maximum(rate, TINY_RATE)))),
      power: values.scalar(this.#power, dtype, 'learning_rate_power'),
      shrinkage:
        this.#shrinkage === 0
          ? undefined
          : values.scalar(this.#shrinkage, dtype, 'l2_shrinkage_regularization_strength'),
    };
  }
}
