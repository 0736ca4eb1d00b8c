/** Learning-rate schedules, clipping and moving averages, compared with TensorFlow's. */
import { beforeAll, describe, expect, it } from 'vitest';
import { IndexedSlices } from '../gradients/index.js';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { constant, group, placeholder } from '../ops/creation.js';
import { mul } from '../ops/math.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import { getOrCreateGlobalStep } from '../variables/global-step.js';
import { globalVariablesInitializer } from '../variables/initialize.js';
import { fixedSizePartitioner } from '../variables/partitioned.js';
import { globalVariables, partitionedVariable, variable } from '../variables/variable-scope.js';
import {
  clipByGlobalNorm,
  clipByNorm,
  clipGradientByValue,
  cosineDecay,
  cosineDecayRestarts,
  ExponentialMovingAverage,
  exponentialDecay,
  globalNorm,
  inverseTimeDecay,
  naturalExpDecay,
  piecewiseConstant,
  polynomialDecay,
  type Schedule,
  warmUp,
} from './index.js';
import { relativeError } from './testing/compare.js';
import { askTensorFlow, ORACLE_MS } from './testing/oracle.js';

const STEPS = [0, 1, 3, 5, 9, 10, 11, 15, 20, 25, 40, 100];

const SCHEDULES: Readonly<Record<string, readonly [Schedule, string, object]>> = {
  'exponential decay': [
    exponentialDecay(0.1, { decaySteps: 10, decayRate: 0.7 }),
    'exponential_decay',
    { learning_rate: 0.1, decay_steps: 10, decay_rate: 0.7 },
  ],
  'exponential decay by stairs': [
    exponentialDecay(0.1, { decaySteps: 10, decayRate: 0.7, staircase: true }),
    'exponential_decay',
    { learning_rate: 0.1, decay_steps: 10, decay_rate: 0.7, staircase: true },
  ],
  'natural exponential decay': [
    naturalExpDecay(0.1, { decaySteps: 10, decayRate: 0.7, staircase: true }),
    'natural_exp_decay',
    { learning_rate: 0.1, decay_steps: 10, decay_rate: 0.7, staircase: true },
  ],
  'inverse time decay': [
    inverseTimeDecay(0.1, { decaySteps: 10, decayRate: 0.7 }),
    'inverse_time_decay',
    { learning_rate: 0.1, decay_steps: 10, decay_rate: 0.7 },
  ],
  'polynomial decay': [
    polynomialDecay(0.1, { decaySteps: 10, endLearningRate: 0.01, power: 2 }),
    'polynomial_decay',
    { learning_rate: 0.1, decay_steps: 10, end_learning_rate: 0.01, power: 2 },
  ],
  'polynomial decay in cycles': [
    polynomialDecay(0.1, { decaySteps: 10, endLearningRate: 0.01, power: 0.5, cycle: true }),
    'polynomial_decay',
    { learning_rate: 0.1, decay_steps: 10, end_learning_rate: 0.01, power: 0.5, cycle: true },
  ],
  'piecewise constants': [
    piecewiseConstant([5, 20], [0.1, 0.05, 0.01]),
    'piecewise_constant',
    { boundaries: [5, 20], values: [0.1, 0.05, 0.01] },
  ],
  'cosine decay': [
    cosineDecay(0.1, { decaySteps: 20, alpha: 0.1 }),
    'cosine_decay',
    { learning_rate: 0.1, decay_steps: 20, alpha: 0.1 },
  ],
  'cosine decay with restarts': [
    cosineDecayRestarts(0.1, { firstDecaySteps: 10, tMul: 1.5, mMul: 0.8, alpha: 0.05 }),
    'cosine_decay_restarts',
    { learning_rate: 0.1, first_decay_steps: 10, t_mul: 1.5, m_mul: 0.8, alpha: 0.05 },
  ],
  'cosine decay with even restarts': [
    cosineDecayRestarts(0.1, { firstDecaySteps: 10, tMul: 1 }),
    'cosine_decay_restarts',
    { learning_rate: 0.1, first_decay_steps: 10, t_mul: 1 },
  ],
};

const SLICES = {
  values: [
    [1, -2],
    [3, 4],
    [0.5, 0.25],
  ],
  ids: [4, 1, 4],
};
const GRADIENTS = [[[3, -4, 0.5]], null, SLICES, 2];
const CLIPS = {
  'by value': { how: 'value', arguments: [-1, 0.75] },
  'by norm': { how: 'norm', arguments: [1.5] },
  'by norm along an axis': { how: 'norm', arguments: [1.5], axes: [1], gradients: [[[3, -4, 0.5]], SLICES] },
  'of zeros by norm': { how: 'norm', arguments: [1.5], gradients: [[0, 0]] },
  'by global norm': { how: 'global', arguments: [2] },
  'by a global norm that is not reached': { how: 'global', arguments: [200] },
  'of infinity by global norm': {
    how: 'global',
    arguments: [2],
    gradients: [
      [1, 2],
      [1e30, 1e30],
    ],
  },
} as const;

const AVERAGES = {
  plain: { decay: 0.9, counted: false, zeroDebias: false },
  'by the number of updates': { decay: 0.9, counted: true, zeroDebias: false },
  'with zero debias': { decay: 0.9, counted: false, zeroDebias: true },
} as const;
const AVERAGED = {
  first: [1, 2, 3],
  values: Array.from({ length: 10 }, (_, i) => [i, 1 / (i + 1), -i * i]),
};

interface AverageAnswer {
  readonly history: readonly Record<string, unknown>[];
  readonly names: readonly string[];
  readonly restore: Readonly<Record<string, string>>;
}

let theirs: Record<string, unknown>;

beforeAll(async () => {
  const cases: Record<string, object> = {};
  for (const [name, [, schedule, given]] of Object.entries(SCHEDULES)) {
    cases[`schedule ${name}`] = { kind: 'schedule', schedule, arguments: given, steps: STEPS };
  }
  for (const [name, clip] of Object.entries(CLIPS)) {
    cases[`clip ${name}`] = { kind: 'clip', gradients: GRADIENTS, ...clip };
  }
  for (const [name, average] of Object.entries(AVERAGES)) {
    cases[`average ${name}`] = { kind: 'average', ...AVERAGED, ...average };
  }
  theirs = await askTensorFlow(cases);
}, ORACLE_MS);

async function ratesOf(schedule: Schedule, steps: readonly number[]): Promise<number[]> {
  const graph = new Graph();
  const [step, rate] = graph.asDefault(() => {
    const step = placeholder({ dtype: 'int64', shape: [] });
    return [step, schedule(step)] as const;
  });
  await using session = Session.open({ graph });
  const rates: number[] = [];
  for (const at of steps) rates.push((await session.run(rate, { feeds: [[step, at]] })).number());
  return rates;
}

describe('schedules', () => {
  it.each(Object.keys(SCHEDULES))('%s agrees with TensorFlow', async (name) => {
    const rates = await ratesOf((SCHEDULES[name] as (typeof SCHEDULES)[string])[0], STEPS);
    expect(relativeError(rates, theirs[`schedule ${name}`])).toBeLessThan(1e-6);
  });

  it('a warm-up rises linearly to a number and stays there', async () => {
    const rates = await ratesOf(warmUp(0.4, { steps: 4 }), [0, 1, 2, 3, 4, 5]);
    expect(relativeError(rates, [0, 0.1, 0.2, 0.3, 0.4, 0.4])).toBeLessThan(1e-6);
  });

  it('a warm-up joins the following schedule continuously', async () => {
    const decay = exponentialDecay(0.4, { decaySteps: 4, decayRate: 0.5 });
    const rates = await ratesOf(warmUp(decay, { steps: 4, from: 0.1 }), [0, 2, 4, 8]);
    expect(relativeError(rates, [0.1, 0.15, 0.2, 0.1])).toBeLessThan(1e-6);
  });
});

describe('clipping', () => {
  it.each(Object.keys(CLIPS) as (keyof typeof CLIPS)[])('%s agrees with TensorFlow', async (name) => {
    const clip = { gradients: GRADIENTS, axes: undefined, ...CLIPS[name] };
    const graph = new Graph();
    const outputs = graph.asDefault(() => {
      const given = clip.gradients.map((gradient) => {
        if (gradient === null) return null;
        if (typeof gradient === 'object' && 'ids' in gradient) {
          return new IndexedSlices(constant(gradient.values), constant(Int32Array.from(gradient.ids)));
        }
        return constant(gradient as unknown as number[]);
      });
      const present = given.filter((gradient) => gradient !== null);
      const limits = clip.arguments as readonly number[];
      if (clip.how === 'global') {
        const [clipped, norm] = clipByGlobalNorm(given, limits[0] as number);
        return [...clipped.filter((gradient) => gradient !== null), norm];
      }
      return present.map((gradient) =>
        clip.how === 'value'
          ? clipGradientByValue(gradient, limits[0] as number, limits[1] as number)
          : clipByNorm(gradient, limits[0] as number, clip.axes ? { axis: clip.axes } : {}),
      );
    });
    const flat = outputs.map((output) => (output instanceof IndexedSlices ? output.values : output));
    await using session = Session.open({ graph });
    const values = (await session.run(flat as Output[])).map((value) => value.toArray());
    expect(relativeError(values, theirs[`clip ${name}`])).toBeLessThan(1e-6);
  });

  it('globalNorm rejects an empty list', () => {
    expect(() => globalNorm([null])).toThrow('at least one gradient');
  });

  it.each([Number.NaN, 0, -1])('a limit of %s is rejected', (limit) => {
    new Graph().asDefault(() => {
      expect(() => clipByNorm(constant(1), limit)).toThrow('must be a finite number above 0');
    });
  });
});

describe('moving averages', () => {
  it.each(Object.keys(AVERAGES) as (keyof typeof AVERAGES)[])('%s agree with TensorFlow', async (name) => {
    const { decay, counted, zeroDebias } = AVERAGES[name];
    const graph = new Graph();
    const model = graph.asDefault(() => {
      const w = variable('w', { initializer: AVERAGED.first });
      const p = partitionedVariable('p', {
        initializer: [[1], [2], [3]],
        partitioner: fixedSizePartitioner(2),
      });
      const value = placeholder({ shape: [3] });
      const doubled = mul(w, 2, { name: 'doubled' });
      const step = getOrCreateGlobalStep();
      const average = new ExponentialMovingAverage(decay, {
        zeroDebias,
        ...(counted ? { numUpdates: step } : {}),
      });
      const set = group([w.assign(value), step.assignAdd(Tensor.of(1, { dtype: 'int64' }))]);
      const update = average.apply([w, doubled, p]);
      const shown = Object.fromEntries(globalVariables().map((one) => [one.name, one.read()]));
      return { value, average, set, update, shown, init: globalVariablesInitializer(), parts: p.parts };
    });
    const expected = theirs[`average ${name}`] as AverageAnswer;
    expect(Object.keys(model.shown).sort()).toEqual([...expected.names].sort());
    await using session = Session.open({ graph });
    await session.run(model.init);
    for (const [i, value] of AVERAGED.values.entries()) {
      await session.run(model.set, { feeds: [[model.value, value]] });
      await session.run(model.update);
      const values = (await session.run(model.shown)) as Record<string, Tensor>;
      for (const [variableName, tensor] of Object.entries(values)) {
        const other = expected.history[i]?.[variableName];
        expect(relativeError(tensor.toArray(), other), `${variableName} after ${i + 1}`).toBeLessThan(1e-6);
      }
    }
    const restore = graph.asDefault(() => model.average.variablesToRestore());
    expect(Object.fromEntries([...restore].map(([key, one]) => [key, one.name]))).toEqual(expected.restore);
    expect(model.average.average(model.parts[1] as never)?.sliceInfo?.fullName).toBe(
      'p/ExponentialMovingAverage',
    );
  });
});
