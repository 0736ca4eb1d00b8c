/** Optimizers by name, with the hyperparameters of Keras. */

import type { Optimizer } from '../../../tensorflow/optimizers/optimizer.js';
import { AdadeltaOptimizer } from '../../../tensorflow/optimizers/rules/adadelta.js';
import { AdagradOptimizer } from '../../../tensorflow/optimizers/rules/adagrad.js';
import { AdamOptimizer } from '../../../tensorflow/optimizers/rules/adam.js';
import { AdamWOptimizer } from '../../../tensorflow/optimizers/rules/adam-w.js';
import { FtrlOptimizer } from '../../../tensorflow/optimizers/rules/ftrl.js';
import { GradientDescentOptimizer } from '../../../tensorflow/optimizers/rules/gradient-descent.js';
import { MomentumOptimizer } from '../../../tensorflow/optimizers/rules/momentum.js';
import { ProximalAdagradOptimizer } from '../../../tensorflow/optimizers/rules/proximal-adagrad.js';
import { ProximalGradientDescentOptimizer } from '../../../tensorflow/optimizers/rules/proximal-gradient-descent.js';
import { RmsPropOptimizer } from '../../../tensorflow/optimizers/rules/rms-prop.js';
import type { Spelled } from '../names.js';

export const OPTIMIZERS = {
  sgd: () => new GradientDescentOptimizer(0.01),
  momentum: () => new MomentumOptimizer(0.01, 0.9),
  adagrad: () => new AdagradOptimizer(0.001),
  adadelta: () => new AdadeltaOptimizer(0.001, { rho: 0.95, epsilon: 1e-7 }),
  adam: () => new AdamOptimizer(0.001, { epsilon: 1e-7 }),
  adamw: () => new AdamWOptimizer(0.001, { weightDecay: 0.004 }),
  rmsprop: () => new RmsPropOptimizer(0.001, { epsilon: 1e-7 }),
  ftrl: () => new FtrlOptimizer(0.001),
  proximalAdagrad: () => new ProximalAdagradOptimizer(0.001),
  proximalGradientDescent: () => new ProximalGradientDescentOptimizer(0.01),
} satisfies Record<string, () => Optimizer>;

export type OptimizerName = Spelled<keyof typeof OPTIMIZERS>;
