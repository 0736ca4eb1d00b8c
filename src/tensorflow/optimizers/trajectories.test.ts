/**
 * Compares each optimizer with TensorFlow's: same initial values, same 50 batches, dense and sparse gradients
 * (with repeated rows), every variable and every slot after every step.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import {
  adadelta,
  adagrad,
  adam,
  adamw,
  combine,
  exponentialDecay,
  ftrl,
  momentum,
  type Optimizer,
  proximalAdagrad,
  proximalGradientDescent,
  rmsprop,
  sgd,
} from './index.js';
import { relativeError } from './testing/compare.js';
import { askTensorFlow, ORACLE_MS } from './testing/oracle.js';
import { train, trainingData } from './testing/training.js';

interface Case {
  readonly ours: () => Optimizer;
  /** The class in tf.compat.v1.train and its arguments. */
  readonly theirs: readonly [string, Readonly<Record<string, unknown>>];
  readonly dtype?: 'float64';
}

const CASES: Readonly<Record<string, Case>> = {
  'gradient descent': {
    ours: () => sgd(0.05),
    theirs: ['GradientDescentOptimizer', { learning_rate: 0.05 }],
  },
  momentum: {
    ours: () => momentum(0.02, 0.9),
    theirs: ['MomentumOptimizer', { learning_rate: 0.02, momentum: 0.9 }],
  },
  'Nesterov momentum': {
    ours: () => momentum(0.02, 0.9, { useNesterov: true, useLocking: true }),
    theirs: ['MomentumOptimizer', { learning_rate: 0.02, momentum: 0.9, use_nesterov: true }],
  },
  Adagrad: {
    ours: () => adagrad(0.1),
    theirs: ['AdagradOptimizer', { learning_rate: 0.1 }],
  },
  'Adagrad with another first value': {
    ours: () => adagrad(0.1, { initialAccumulatorValue: 0.5 }),
    theirs: ['AdagradOptimizer', { learning_rate: 0.1, initial_accumulator_value: 0.5 }],
  },
  Adadelta: {
    ours: () => adadelta(0.5, { rho: 0.9, epsilon: 1e-4 }),
    theirs: ['AdadeltaOptimizer', { learning_rate: 0.5, rho: 0.9, epsilon: 1e-4 }],
  },
  RMSProp: {
    ours: () => rmsprop(0.02, { momentum: 0.5 }),
    theirs: ['RMSPropOptimizer', { learning_rate: 0.02, momentum: 0.5 }],
  },
  'centered RMSProp': {
    ours: () => rmsprop(0.02, { momentum: 0.5, epsilon: 1e-3, centered: true }),
    theirs: ['RMSPropOptimizer', { learning_rate: 0.02, momentum: 0.5, epsilon: 1e-3, centered: true }],
  },
  Adam: {
    ours: () => adam(0.02),
    theirs: ['AdamOptimizer', { learning_rate: 0.02 }],
  },
  'Adam of float64 variables': {
    ours: () => adam(0.02),
    theirs: ['AdamOptimizer', { learning_rate: 0.02 }],
    dtype: 'float64',
  },
  FTRL: {
    ours: () => ftrl(0.1),
    theirs: ['FtrlOptimizer', { learning_rate: 0.1 }],
  },
  'FTRL with l1, l2, beta and another power': {
    ours: () =>
      ftrl(0.1, {
        l1RegularizationStrength: 0.1,
        l2RegularizationStrength: 0.2,
        learningRatePower: -0.6,
        initialAccumulatorValue: 0.3,
        beta: 0.1,
      }),
    theirs: [
      'FtrlOptimizer',
      {
        learning_rate: 0.1,
        l1_regularization_strength: 0.1,
        l2_regularization_strength: 0.2,
        learning_rate_power: -0.6,
        initial_accumulator_value: 0.3,
        beta: 0.1,
      },
    ],
  },
  'FTRL with shrinkage': {
    ours: () => ftrl(0.1, { l1RegularizationStrength: 0.05, l2ShrinkageRegularizationStrength: 0.1 }),
    theirs: [
      'FtrlOptimizer',
      {
        learning_rate: 0.1,
        l1_regularization_strength: 0.05,
        l2_shrinkage_regularization_strength: 0.1,
      },
    ],
  },
  'proximal Adagrad': {
    ours: () => proximalAdagrad(0.1, { l1RegularizationStrength: 0.1, l2RegularizationStrength: 0.2 }),
    theirs: [
      'ProximalAdagradOptimizer',
      { learning_rate: 0.1, l1_regularization_strength: 0.1, l2_regularization_strength: 0.2 },
    ],
  },
  'proximal gradient descent': {
    ours: () =>
      proximalGradientDescent(0.05, { l1RegularizationStrength: 0.1, l2RegularizationStrength: 0.2 }),
    theirs: [
      'ProximalGradientDescentOptimizer',
      { learning_rate: 0.05, l1_regularization_strength: 0.1, l2_regularization_strength: 0.2 },
    ],
  },
};

// Keras computes 1 − β in double precision, TensorFlow's kernel in the variable's: for 0.999 in float32 they differ
// by 1.3e-5. With betas that float32 represents exactly, both agree.
const BETAS = { beta1: 0.875, beta2: 0.9921875 };
const ADAM_W = { learning_rate: 0.02, weight_decay: 0.1, beta_1: BETAS.beta1, beta_2: BETAS.beta2 };
const data = trainingData(50);

type History = Record<string, unknown>[];

describe('trajectories', () => {
  let theirs: Record<string, { history: History; slots: string[] }>;

  beforeAll(async () => {
    const cases: Record<string, object> = {
      combined: {
        kind: 'gradients',
        parts: [
          { optimizer: 'FtrlOptimizer', arguments: { learning_rate: 0.1 }, variables: ['table'] },
          { optimizer: 'AdamOptimizer', arguments: { learning_rate: 0.02 }, variables: ['w', 'b'] },
        ],
        data,
      },
      AdamW: { kind: 'keras', optimizer: 'AdamW', arguments: ADAM_W, data },
    };
    for (const [name, { theirs, dtype }] of Object.entries(CASES)) {
      cases[name] = { kind: 'gradients', optimizer: theirs[0], arguments: theirs[1], data, dtype };
    }
    theirs = await askTensorFlow(cases);
  }, ORACLE_MS);

  it.each(Object.keys(CASES))('%s agrees with TensorFlow over 50 batches', async (name) => {
    const { ours, dtype } = CASES[name] as Case;
    const optimizer = ours();
    const history = await train(data, optimizer, { dtype });
    const expected = theirs[name] as { history: History; slots: string[] };
    expect(optimizer.slotNames).toEqual(expected.slots);
    for (const [step, values] of history.entries()) {
      const other = expected.history[step] as Record<string, unknown>;
      expect(Object.keys(values).sort()).toEqual(Object.keys(other).sort());
      for (const [variable, value] of Object.entries(values)) {
        expect(relativeError(value, other[variable]), `${variable} after step ${step + 1}`).toBeLessThan(
          1e-6,
        );
      }
    }
  });

  it('two optimizers with variables of their own agree with TensorFlow over 50 batches', async () => {
    const optimizer = combine([{ variables: /^table$/, use: ftrl(0.1) }, { use: adam(0.02) }]);
    const history = await train(data, optimizer);
    const expected = theirs.combined as { history: History };
    expect(optimizer.slotNames).toEqual(['accum', 'linear', 'm', 'v']);
    for (const [step, values] of history.entries()) {
      const other = expected.history[step] as Record<string, unknown>;
      expect(Object.keys(values).sort()).toEqual(Object.keys(other).sort());
      for (const [variable, value] of Object.entries(values))
        expect(relativeError(value, other[variable]), `${variable} after step ${step + 1}`).toBeLessThan(
          1e-6,
        );
    }
  });

  it('AdamW agrees with Keras over 50 batches', async () => {
    const history = await train(data, adamw(0.02, { weightDecay: 0.1, ...BETAS }));
    const expected = theirs.AdamW as { history: History };
    for (const [step, values] of history.entries()) {
      const other = expected.history[step] as Record<string, unknown>;
      for (const name of ['w', 'b', 'table']) {
        expect(relativeError(values[name], other[name], 0.1), `${name} after step ${step + 1}`).toBeLessThan(
          1e-6,
        );
      }
    }
  });

  it('a learning rate by schedule follows the global step', async () => {
    const decayed = await train(data, sgd(exponentialDecay(0.05, { decaySteps: 1, decayRate: 0.5 })));
    const first = await train({ ...data, batches: data.batches.slice(0, 1) }, sgd(0.05));
    const whole = await train(data, sgd(0.05));
    expect(decayed[0]).toEqual(first[0]);
    expect(decayed[1]).not.toEqual(whole[1]);
    // The rate halves every step: after 40 steps nothing changes.
    expect(decayed[49]?.w).toEqual(decayed[45]?.w);
  });
});
