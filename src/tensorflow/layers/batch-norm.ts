/**
 * Batch normalisation. In training it normalises by the batch's mean and variance and adds ops that update the
 * moving averages to the collection of update ops; otherwise it normalises by the moving averages:
 *
 *   moving ← moving · momentum + batch · (1 - momentum)
 *
 * Run the update ops with each training step: `tf.controlDependencies(graph.getCollection('update_ops'), …)`.
 */

import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import type { Names } from '../../base/errors/option-names.js';
import type { Output } from '../graph/operation.js';
import { size as sizeOf } from '../ops/arrays.js';
import { asOutput, isOutputLike, type Operand } from '../ops/build.js';
import { cond } from '../ops/control-flow.js';
import { ones, zeros } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { add, cast, div, maximum, moments, mul, rsqrt, sub } from '../ops/math.js';
import type { TensorLike } from '../tensor/tensor.js';
import { GraphKeys } from '../variables/collections.js';
import { type Initializer, onesInitializer, zerosInitializer } from '../variables/initializers.js';
import type { Variable } from '../variables/variable.js';
import { variable } from '../variables/variable-scope.js';
import type { TrainingFlag } from './dropout.js';
import { layerScope } from './layer-scope.js';
import { regularize } from './regularizers.js';
import { knownSize, layerOptions, NORM_NAMES, type NormOptions } from './weights.js';

export interface BatchNormOptions extends NormOptions {
  /** The decay of the moving averages; default: 0.99. */
  readonly momentum?: number;
  /** Whether to normalise by the batch and update the moving averages; default: false. */
  readonly training?: TrainingFlag;
  /** The initializer of the moving mean, or its initial value; default: zeros. */
  readonly movingMeanInitializer?: Initializer | TensorLike;
  /** The initializer of the moving variance, or its initial value; default: ones. */
  readonly movingVarianceInitializer?: Initializer | TensorLike;
  /**
   * TensorFlow's one-op form, for float32 images [batch, height, width, channels] only. Default: used where it is possible.
   */
  readonly fused?: boolean;
  /**
   * Which variance the fused form averages: that of the batch as a sample, as TensorFlow 1 does, or as the population, as
   * Keras does. Default: `sample`.
   */
  readonly movingVariance?: 'sample' | 'population';
}

export const BATCH_NORM_NAMES: Names<BatchNormOptions> = {
  ...NORM_NAMES,
  momentum: true,
  training: true,
  movingMeanInitializer: true,
  movingVarianceInitializer: true,
  fused: true,
  movingVariance: true,
};

interface Normalisation {
  readonly x: Output;
  readonly axis: number;
  readonly gamma: Output | undefined;
  readonly beta: Output | undefined;
  readonly movingMean: Output;
  readonly movingVariance: Output;
  readonly epsilon: number;
  readonly training: TrainingFlag;
  readonly isPopulation: boolean;
}

/** The layer's result, and the mean and variance it used. */
type Normalised = readonly [y: Output, mean: Output, variance: Output];

/** Variables `gamma`, `beta`, `moving_mean`, `moving_variance` under `batch_normalization/`. */
export function batchNorm(inputs: Operand, given: OrNull<BatchNormOptions> = {}): Output {
  const options = layerOptions('batchNorm', BATCH_NORM_NAMES, given);
  const { momentum = 0.99, epsilon = 1e-3, center = true, scale = true, training = false } = options;
  const x = asOutput(inputs);
  if (x.rank === null) throw invalid(`Layer batchNorm needs an input of known rank; got ${x}`);
  const axis = (options.axis ?? -1) < 0 ? (options.axis ?? -1) + x.rank : (options.axis as number);
  const size = knownSize('batchNorm', x, axis);
  return layerScope(x, 'batch_normalization', options, () => {
    const make = (name: string, initializer: Initializer | TensorLike, trainable: boolean): Variable =>
      variable(name, { shape: [size], dtype: x.dtype, initializer, trainable });
    const learn = options.trainable ?? true;
    const gamma = scale ? make('gamma', options.gammaInitializer ?? onesInitializer(), learn) : undefined;
    const beta = center ? make('beta', options.betaInitializer ?? zerosInitializer(), learn) : undefined;
    if (gamma && options.gammaRegularizer) regularize(gamma, options.gammaRegularizer);
    if (beta && options.betaRegularizer) regularize(beta, options.betaRegularizer);
    const movingMean = make('moving_mean', options.movingMeanInitializer ?? zerosInitializer(), false);
    const movingVariance = make(
      'moving_variance',
      options.movingVarianceInitializer ?? onesInitializer(),
      false,
    );
    const parts: Normalisation = {
      x,
      axis,
      gamma: gamma?.toOutput(),
      beta: beta?.toOutput(),
      movingMean: movingMean.toOutput(),
      movingVariance: movingVariance.toOutput(),
      epsilon,
      training,
      isPopulation: options.movingVariance === 'population',
    };
    const [y, mean, variance] = (useFused(parts, options.fused) ? fusedForm : plainForm)(parts);
    if (training !== false) {
      moveTowards(movingMean, mean, 1 - momentum);
      moveTowards(movingVariance, variance, 1 - momentum);
    }
    return y;
  });
}

function useFused({ x, axis }: Normalisation, asked: boolean | undefined): boolean {
  const possible = x.rank === 4 && axis === 3 && x.dtype === 'float32';
  if (asked && !possible) {
    throw invalid(
      `Fused batch normalisation needs float32 images [batch, height, width, channels]; got ${x}`,
    );
  }
  return asked ?? possible;
}

/** The result of `inTraining` or `inInference`, selected when the graph is built or in each run. */
function choose(
  training: TrainingFlag,
  inTraining: () => Normalised,
  inInference: () => Normalised,
): Normalised {
  if (!isOutputLike(training)) return training ? inTraining() : inInference();
  return cond(
    asOutput(training, 'bool'),
    () => inTraining(),
    () => inInference(),
  ) as unknown as Normalised;
}

function fusedForm(parts: Normalisation): Normalised {
  const { x, gamma, beta, movingMean, movingVariance, epsilon, training, isPopulation } = parts;
  const channels = x.shape?.[3] as number;
  const scale = gamma ?? ones([channels]);
  const offset = beta ?? zeros([channels]);
  return choose(
    training,
    () => {
      const none = zeros([0]);
      const made = raw.fusedBatchNormV3(x, scale, offset, none, none, { epsilon, isTraining: true });
      return [
        made.y,
        made.batchMean,
        isPopulation ? mul(made.batchVariance, populationFactor(x, channels)) : made.batchVariance,
      ];
    },
    () => {
      const made = raw.fusedBatchNormV3(x, scale, offset, movingMean, movingVariance, {
        epsilon,
        isTraining: false,
      });
      return [made.y, movingMean, movingVariance];
    },
  );
}

/** (n - 1) / n for n values of each channel: the variance of the population divided by that of the sample. */
function populationFactor(x: Output, channels: number): Output {
  const values = div(cast(sizeOf(x), 'float32'), channels);
  return div(maximum(sub(values, 1), 1), values);
}

function plainForm(parts: Normalisation): Normalised {
  const { x, axis, training } = parts;
  const others = Array.from({ length: x.rank as number }, (_, i) => i).filter((i) => i !== axis);
  const by = (mean: Output, variance: Output): Normalised => [
    scaleAndShift(parts, mean, variance),
    mean,
    variance,
  ];
  return choose(
    training,
    () => {
      const { mean, variance } = moments(x, { axis: others });
      return by(mean, variance);
    },
    () => by(parts.movingMean, parts.movingVariance),
  );
}

function scaleAndShift(parts: Normalisation, mean: Output, variance: Output): Output {
  const { x, axis, gamma, beta, epsilon } = parts;
  const rank = x.rank as number;
  const along = Array.from({ length: rank - axis }, (_, i) => (i === 0 ? -1 : 1));
  const stretch = (value: Output): Output => (along.length === 1 ? value : value.reshape(along));
  const inverse = rsqrt(add(variance, epsilon));
  const factor = gamma ? mul(inverse, gamma) : inverse;
  const shift = beta ? sub(beta, mul(mean, factor)) : mul(mean, factor).neg();
  return add(mul(x, stretch(factor)), stretch(shift));
}

function moveTowards(moving: Variable, value: Output, rate: number): void {
  const { graph } = moving;
  const update = graph.colocateWith(moving.handle, () =>
    graph.nameScope('AssignMovingAvg', () => moving.assignSub(mul(sub(moving, value), rate))),
  );
  graph.addToCollection(GraphKeys.updateOps, update);
}
