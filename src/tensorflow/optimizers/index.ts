/** Optimizers, schedules, clipping and averages; and the short ways to make an optimizer. */
import type { OrNull } from '../../base/errors/null-options.js';
import { CombinedOptimizer, type OptimizerEntry } from './combined.js';
import type { Hyperparameter } from './hyperparameters.js';
import type { OptimizerOptions } from './optimizer.js';
import { AdadeltaOptimizer, type AdadeltaOptions } from './rules/adadelta.js';
import { AdagradOptimizer, type AdagradOptions } from './rules/adagrad.js';
import { AdamOptimizer, type AdamOptions } from './rules/adam.js';
import { AdamWOptimizer, type AdamWOptions } from './rules/adam-w.js';
import { FtrlOptimizer, type FtrlOptions } from './rules/ftrl.js';
import { GradientDescentOptimizer } from './rules/gradient-descent.js';
import { MomentumOptimizer, type MomentumOptions } from './rules/momentum.js';
import { ProximalAdagradOptimizer, type ProximalAdagradOptions } from './rules/proximal-adagrad.js';
import {
  ProximalGradientDescentOptimizer,
  type ProximalGradientDescentOptions,
} from './rules/proximal-gradient-descent.js';
import { RmsPropOptimizer, type RmsPropOptions } from './rules/rms-prop.js';

export {
  type ClipByNormOptions,
  clipByGlobalNorm,
  clipByNorm,
  clipGradientByValue,
  globalNorm,
} from './clipping.js';
export type { Hyperparameter, Hyperparameters, ScalarLike, Schedule } from './hyperparameters.js';
export {
  type CosineDecayOptions,
  type CosineDecayRestartsOptions,
  cosineDecay,
  cosineDecayRestarts,
  type DecayOptions,
  exponentialDecay,
  inverseTimeDecay,
  naturalExpDecay,
  type PolynomialDecayOptions,
  piecewiseConstant,
  polynomialDecay,
  type WarmUpOptions,
  warmUp,
} from './learning-rate.js';
export {
  type Averaged,
  ExponentialMovingAverage,
  type ExponentialMovingAverageOptions,
} from './moving-average.js';
export {
  type ApplyGradientsOptions,
  type ComputeGradientsOptions,
  type GradientAndVariable,
  Optimizer,
  type OptimizerOptions,
  type SlotSpec,
  type UpdateGuard,
} from './optimizer.js';
export type { ProximalOptimizer, ProximalOptions } from './rules/proximal.js';
export { SyncReplicasOptimizer, type SyncReplicasOptions } from './sync/sync-replicas.js';
export {
  AdadeltaOptimizer,
  type AdadeltaOptions,
  AdagradOptimizer,
  type AdagradOptions,
  AdamOptimizer,
  type AdamOptions,
  AdamWOptimizer,
  type AdamWOptions,
  CombinedOptimizer,
  FtrlOptimizer,
  type FtrlOptions,
  GradientDescentOptimizer,
  MomentumOptimizer,
  type MomentumOptions,
  type OptimizerEntry,
  ProximalAdagradOptimizer,
  type ProximalAdagradOptions,
  ProximalGradientDescentOptimizer,
  type ProximalGradientDescentOptions,
  RmsPropOptimizer,
  type RmsPropOptions,
};

export const sgd = (
  learningRate: Hyperparameter,
  options?: OrNull<OptimizerOptions>,
): GradientDescentOptimizer => new GradientDescentOptimizer(learningRate, options);
export const momentum = (
  learningRate: Hyperparameter,
  momentum: Hyperparameter = 0.9,
  options?: OrNull<MomentumOptions>,
): MomentumOptimizer => new MomentumOptimizer(learningRate, momentum, options);
export const adagrad = (learningRate: Hyperparameter, options?: OrNull<AdagradOptions>): AdagradOptimizer =>
  new AdagradOptimizer(learningRate, options);
export const adadelta = (
  learningRate?: Hyperparameter,
  options?: OrNull<AdadeltaOptions>,
): AdadeltaOptimizer => new AdadeltaOptimizer(learningRate, options);
export const rmsprop = (learningRate: Hyperparameter, options?: OrNull<RmsPropOptions>): RmsPropOptimizer =>
  new RmsPropOptimizer(learningRate, options);
export const adam = (learningRate?: Hyperparameter, options?: OrNull<AdamOptions>): AdamOptimizer =>
  new AdamOptimizer(learningRate, options);
export const adamw = (learningRate?: Hyperparameter, options?: OrNull<AdamWOptions>): AdamWOptimizer =>
  new AdamWOptimizer(learningRate, options);
export const ftrl = (learningRate: Hyperparameter, options?: OrNull<FtrlOptions>): FtrlOptimizer =>
  new FtrlOptimizer(learningRate, options);
export const proximalAdagrad = (
  learningRate: Hyperparameter,
  options?: OrNull<ProximalAdagradOptions>,
): ProximalAdagradOptimizer => new ProximalAdagradOptimizer(learningRate, options);
export const proximalGradientDescent = (
  learningRate: Hyperparameter,
  options?: OrNull<ProximalGradientDescentOptions>,
): ProximalGradientDescentOptimizer => new ProximalGradientDescentOptimizer(learningRate, options);
/** Several optimizers for one model, each with variables of its own. */
export const combine = (entries: readonly OrNull<OptimizerEntry>[]): CombinedOptimizer =>
  new CombinedOptimizer(entries);
