/**
 * Adam.
 *
 *   m ← β₁·m + (1 − β₁)·g
 *   v ← β₂·v + (1 − β₂)·g²
 *   w ← w − lr·√(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε)
 *
 * Slots: `m` and `v`, from 0. The powers of the betas are two scalars shared by all variables,
 * `beta1_power` and `beta2_power`, placed with the variable whose name sorts first.
 *
 * A sparse gradient counts as zero in its missing rows: m and v decay, and w moves, in all rows. It is never
 * converted to dense, but a step takes time proportional to the table size; for large tables use Adagrad or FTRL.
 */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { IndexedSlices } from '../../gradients/index.js';
import type { Operation, Output } from '../../graph/operation.js';
import { group } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { add, cast, div, mul, sqrt, sub } from '../../ops/math.js';
import type { DType } from '../../tensor/dtype.js';
import type { Variable } from '../../variables/variable.js';
import { checkHyperparameter, type Hyperparameter, type Hyperparameters } from '../hyperparameters.js';
import { Optimizer, type OptimizerOptions, type SlotSpec } from '../optimizer.js';

export interface AdamOptions extends OptimizerOptions {
  /** The decay of the first moment; default: 0.9. */
  readonly beta1?: number;
  /** The decay of the second moment; default: 0.999. */
  readonly beta2?: number;
  /** Keeps the divisor above 0; default: 1e-8, 1e-7 for AdamW. */
  readonly epsilon?: Hyperparameter;
}

const POWERS = ['beta1_power', 'beta2_power'] as const;

export class AdamOptimizer extends Optimizer {
  protected readonly slots: readonly SlotSpec[] = [
    { slot: 'm', initial: 0 },
    { slot: 'v', initial: 0 },
  ];
  override readonly learningRate: Hyperparameter;
  readonly #betas: readonly [number, number];
  readonly #epsilon: Hyperparameter;

  constructor(learningRate: Hyperparameter = 0.001, options: OrNull<AdamOptions> = {}, defaultName = 'Adam') {
    super(options, defaultName);
    this.learningRate = learningRate;
    this.#betas = [options.beta1 ?? 0.9, options.beta2 ?? 0.999];
    this.#epsilon = options.epsilon ?? 1e-8;
    checkHyperparameter(this.name, 'learning rate', learningRate);
    checkHyperparameter(this.name, 'beta1', this.#betas[0], { min: 0, max: 1 });
    checkHyperparameter(this.name, 'beta2', this.#betas[1], { min: 0, max: 1 });
    checkHyperparameter(this.name, 'epsilon', this.#epsilon);
  }

  protected override createShared(variables: readonly Variable[]): void {
    const first = variables.reduce((a, b) => (b.name < a.name ? b : a));
    POWERS.forEach((name, i) => {
      this.createSharedScalar(name, this.#betas[i] as number, first);
    });
  }

  protected applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation {
    const { rate, beta1, beta2, epsilon, power1, power2 } = this.#scalars(values, variable);
    return raw.resourceApplyAdam(
      variable.handle,
      this.slotHandle(variable, 'm'),
      this.slotHandle(variable, 'v'),
      power1,
      power2,
      rate,
      beta1,
      beta2,
      epsilon,
      gradient,
      { useLocking: this.useLocking },
    );
  }

  protected applySparse(gradient: IndexedSlices, variable: Variable, values: Hyperparameters): Operation {
    const { rate, beta1, beta2, epsilon, power1, power2 } = this.#scalars(values, variable);
    const { values: g, indices } = gradient;
    const stepSize = div(mul(rate, sqrt(sub(1, power2))), sub(1, power1));
    const m = decayAndAdd(this.slot(variable, 'm'), beta1, indices, mul(g, sub(1, beta1)));
    const v = decayAndAdd(this.slot(variable, 'v'), beta2, indices, mul(mul(g, g), sub(1, beta2)));
    const moved = variable.assignSub(div(mul(stepSize, m), add(sqrt(v), epsilon)));
    return group([moved, m, v]);
  }

  /** Multiplies the powers after every update has read them. */
  protected override finish(updates: readonly Operation[], values: Hyperparameters): readonly Operation[] {
    const { graph } = updates[0] as Operation;
    const [power1] = POWERS.map((name) => this.sharedScalar(graph, name));
    const multiplied = graph.controlDependencies(updates, () =>
      graph.colocateWith((power1 as Variable).handle, () =>
        POWERS.map((name, i) => {
          const power = this.sharedScalar(graph, name);
          const beta = values.scalar(this.#betas[i] as number, 'float32', `beta${i + 1}`);
          return power.assign(mul(power.read(), beta));
        }),
      ),
    );
    return [...updates, ...multiplied];
  }

  #scalars(values: Hyperparameters, { graph, dtype }: Variable) {
    const power = (name: string) => cast(this.sharedScalar(graph, name), dtype);
    return {
      rate: values.scalar(this.learningRate, dtype, 'learning_rate'),
      beta1: values.scalar(this.#betas[0], dtype, 'beta1'),
      beta2: values.scalar(this.#betas[1], dtype, 'beta2'),
      epsilon: values.scalar(this.#epsilon, dtype, 'epsilon'),
      power1: power('beta1_power'),
      power2: power('beta2_power'),
    } satisfies Record<string, Output<DType>>;
  }
}

/** slot ← β·slot, then adds the rows; returns the value after both. */
function decayAndAdd(slot: Variable, beta: Output, indices: Output, rows: Output): Output {
  const { graph } = slot;
  const decayed = slot.assign(mul(slot.read(), beta));
  const added = graph.controlDependencies([decayed], () => slot.scatterAdd(indices, rows));
  return graph.controlDependencies([added], () => slot.read());
}
