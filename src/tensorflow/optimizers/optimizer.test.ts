/** Behaviour shared by all optimizers: TensorFlow 1's names, the order of a step, error messages. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { ShoalError } from '../../base/errors/errors.js';
import { gradients, IndexedSlices } from '../gradients/index.js';
import { Graph } from '../graph/graph.js';
import type { Operation } from '../graph/operation.js';
import { stopGradient } from '../ops/arrays.js';
import { constant, zeros } from '../ops/creation.js';
import { Session } from '../session/session.js';
import { GraphKeys } from '../variables/collections.js';
import { getOrCreateGlobalStep } from '../variables/global-step.js';
import { globalVariablesInitializer } from '../variables/initialize.js';
import { zerosInitializer } from '../variables/initializers.js';
import { fixedSizePartitioner } from '../variables/partitioned.js';
import type { Variable } from '../variables/variable.js';
import {
  globalVariables,
  newVariable,
  partitionedVariable,
  variable,
  variableScope,
} from '../variables/variable-scope.js';
import {
  adadelta,
  adagrad,
  adam,
  adamw,
  exponentialDecay,
  ftrl,
  momentum,
  type Optimizer,
  proximalAdagrad,
  proximalGradientDescent,
  rmsprop,
  sgd,
} from './index.js';
import { askTensorFlow, ORACLE_MS } from './testing/oracle.js';

interface NamesCase {
  readonly ours: () => Optimizer;
  readonly optimizer: string;
  readonly arguments?: object;
  readonly times?: number;
  readonly scope?: string;
}

const NAMES: Readonly<Record<string, NamesCase>> = {
  'gradient descent': { ours: () => sgd(0.1), optimizer: 'GradientDescentOptimizer' },
  momentum: {
    ours: () => momentum(0.1),
    optimizer: 'MomentumOptimizer',
    arguments: { momentum: 0.9 },
  },
  Adagrad: { ours: () => adagrad(0.1), optimizer: 'AdagradOptimizer' },
  Adadelta: { ours: () => adadelta(0.1), optimizer: 'AdadeltaOptimizer' },
  RMSProp: { ours: () => rmsprop(0.1), optimizer: 'RMSPropOptimizer' },
  'centered RMSProp': {
    ours: () => rmsprop(0.1, { centered: true }),
    optimizer: 'RMSPropOptimizer',
    arguments: { centered: true },
  },
  Adam: { ours: () => adam(0.1), optimizer: 'AdamOptimizer' },
  'two Adams': { ours: () => adam(0.1), optimizer: 'AdamOptimizer', times: 2 },
  'Adam in a variable scope': { ours: () => adam(0.1), optimizer: 'AdamOptimizer', scope: 'train' },
  'Adam by another name': {
    ours: () => adam(0.1, { name: 'Mine' }),
    optimizer: 'AdamOptimizer',
    arguments: { name: 'Mine' },
  },
  FTRL: { ours: () => ftrl(0.1), optimizer: 'FtrlOptimizer' },
  'FTRL with named slots': {
    ours: () => ftrl(0.1, { accumName: 'n', linearName: 'z' }),
    optimizer: 'FtrlOptimizer',
    arguments: { accum_name: 'n', linear_name: 'z' },
  },
  'proximal Adagrad': { ours: () => proximalAdagrad(0.1), optimizer: 'ProximalAdagradOptimizer' },
  'proximal gradient descent': {
    ours: () => proximalGradientDescent(0.1),
    optimizer: 'ProximalGradientDescentOptimizer',
  },
};

describe('names', () => {
  let theirs: Record<
    string,
    { names: string[]; trained: string[]; slices: Record<string, [string, number[], number[], number[]]> }
  >;

  beforeAll(async () => {
    theirs = await askTensorFlow(
      Object.fromEntries(
        Object.entries(NAMES).map(([name, { optimizer, arguments: more, times = 1, scope }]) => [
          name,
          { kind: 'names', optimizer, arguments: { learning_rate: 0.1, ...more }, times, scope },
        ]),
      ),
    );
  }, ORACLE_MS);

  it.each(Object.keys(NAMES))('%s names variables, slots and the train op as TensorFlow does', (name) => {
    const { ours, times = 1, scope = '' } = NAMES[name] as NamesCase;
    const graph = new Graph();
    graph.asDefault(() => {
      const w = variable('w', { shape: [4, 2] });
      const p = partitionedVariable('p', { shape: [5, 2], partitioner: fixedSizePartitioner(2) });
      const loss = p.parts.reduce(
        (sum, part) => sum.add(part.gather(constant(Int32Array.of(0, 1))).sum()),
        w.square().sum(),
      );
      const globalStep = getOrCreateGlobalStep();
      const trained: Operation[] = [];
      const train = () => {
        for (let i = 0; i < times; i++) trained.push(ours().minimize(loss, { globalStep }));
      };
      if (scope) variableScope(scope, train);
      else train();
      const expected = theirs[name] as (typeof theirs)[string];
      expect(globalVariables().map((one) => one.name)).toEqual(expected.names);
      expect(trained.map((op) => op.name)).toEqual(expected.trained);
      expect(graph.getCollection(GraphKeys.trainOp)).toEqual(trained);
      if (scope) return;
      const slices = globalVariables().flatMap(({ name: own, sliceInfo: info }) =>
        info ? [[own, [info.fullName, info.fullShape, info.offset, info.shape]]] : [],
      );
      expect(Object.fromEntries(slices)).toEqual(expected.slices);
    });
  });

  it('the slot of a partition within a variable scope is a partition of one slot', () => {
    new Graph().asDefault(() => {
      const p = partitionedVariable('p', { shape: [5, 2], partitioner: fixedSizePartitioner(2) });
      const optimizer = adam();
      variableScope('train', () => optimizer.minimize(p.parts[1]!.square().sum()));
      const slot = optimizer.getSlot(p.parts[1] as Variable, 'v');
      expect(slot?.name).toBe('train/p/part_1/Adam_1');
      expect(slot?.sliceInfo).toMatchObject({ fullName: 'train/p/Adam_1', offset: [3, 0], shape: [2, 2] });
    });
  });
});

describe('slots', () => {
  it('are colocated with their variable, also for partitions on several tasks', () => {
    const graph = new Graph();
    graph.asDefault(() => {
      let next = 0;
      const roundRobin = ({ type }: { type: string }) =>
        type === 'VarHandleOp' ? `/job:ps/task:${next++ % 2}` : '/job:worker/task:0';
      graph.device(roundRobin, () => {
        const p = partitionedVariable('p', { shape: [4, 2], partitioner: fixedSizePartitioner(2) });
        const optimizer = adam();
        const globalStep = getOrCreateGlobalStep();
        const loss = p.parts.reduce((sum, part) => sum.add(part.square().sum()), constant(0));
        const trainOp = optimizer.minimize(loss, { globalStep });
        for (const part of p.parts) {
          for (const slot of ['m', 'v']) {
            const made = optimizer.getSlot(part, slot) as Variable;
            expect(made.device).toBe(part.device);
            expect(made.op.nodeDef().attr._class?.value).toMatchObject({ case: 'list' });
            expect(made.initialValue.op.device).toBe(part.device);
          }
          expect(part.device).toMatch(/ps/);
        }
        const [power] = optimizer.variables();
        expect(power?.name).toBe('beta1_power');
        expect(power?.device).toBe(p.parts[0]?.device);
        expect(trainOp.device).toBe(globalStep.device);
        const updates = graph.operations().filter(({ type }) => type === 'ResourceApplyAdam');
        expect(updates.map(({ device }) => device)).toEqual(p.parts.map(({ device }) => device));
      });
    });
  });

  it('a slot of 30 million rows adds few bytes to the graph', () => {
    const graph = new Graph();
    graph.asDefault(() => {
      const table = variable('table', { shape: [30_000_000, 2], initializer: zerosInitializer() });
      ftrl(0.01).minimize(table.gather(constant(Int32Array.of(1, 2))).sum());
    });
    expect(graph.toGraphDefBytes().length).toBeLessThan(50_000);
  });

  it('are created once when gradients are applied twice', () => {
    const graph = new Graph();
    graph.asDefault(() => {
      const w = variable('w', { shape: [2] });
      const optimizer = adam();
      optimizer.minimize(w.square().sum());
      optimizer.minimize(w.sum());
      expect(optimizer.variables().map(({ name }) => name)).toEqual([
        'beta1_power',
        'beta2_power',
        'w/Adam',
        'w/Adam_1',
      ]);
    });
  });

  it('a sparse gradient stays sparse', () => {
    const graph = new Graph();
    graph.asDefault(() => {
      const table = variable('table', { shape: [9, 2] });
      const loss = table.gather(constant(Int32Array.of(1, 1))).sum();
      const [gradient] = gradients(loss, [table]);
      expect(gradient).toBeInstanceOf(IndexedSlices);
      ftrl(0.1).applyGradients([[gradient as IndexedSlices, table]]);
    });
    const types = graph.operations().map(({ type }) => type);
    expect(types).toContain('ResourceScatterUpdate');
    expect(types).not.toContain('ResourceApplyFtrl');
  });
});

describe('a step', () => {
  it('increments the global step once, after all updates', async () => {
    const graph = new Graph();
    const { trainOp, init, step, v, w } = graph.asDefault(() => {
      const w = variable('w', { initializer: [1, 2] });
      const v = variable('v', { initializer: 3 });
      const globalStep = getOrCreateGlobalStep();
      const trainOp = sgd(0.1).minimize(w.sum().add(v), { globalStep });
      return {
        trainOp,
        init: globalVariablesInitializer(),
        step: globalStep.read(),
        v: v.read(),
        w: w.read(),
      };
    });
    const updates = graph.operations().filter(({ type }) => type === 'ResourceApplyGradientDescent');
    expect(reaches(trainOp, updates)).toBe(true);
    await using session = Session.open({ graph });
    await session.run(init);
    for (let i = 0; i < 3; i++) await session.run(trainOp);
    const values = await session.run({ step, v, w });
    expect(values.step.number()).toBe(3);
    expect(values.v.number()).toBeCloseTo(2.7, 5);
    expect((values.w.toArray() as number[])[1]).toBeCloseTo(1.7, 5);
  });

  it('increments the step on its ps, with one direct dependency per other ps and none on the worker', () => {
    const graph = new Graph();
    const next = roundRobin(['/job:ps/task:0', '/job:ps/task:1']);
    const place = ({ type }: { type: string }) => (type === 'VarHandleOp' ? next() : '/job:worker/task:0');
    const trainOp = graph.asDefault(() =>
      graph.device(place, () => {
        const globalStep = getOrCreateGlobalStep();
        const variables = ['a', 'b', 'c', 'd'].map((name) => variable(name, { initializer: [1, 2] }));
        const loss = variables.map((v) => v.sum()).reduce((x, y) => x.add(y));
        return sgd(0.1).minimize(loss, { globalStep });
      }),
    );
    expect(trainOp.device).toBe('/job:ps/task:0');
    const heardFrom = trainOp.controlInputs.map(({ device }) => device).sort();
    expect(heardFrom).toEqual(['/job:ps/task:0', '/job:ps/task:1']);
  });

  it('sends small gradients to a ps as one tensor, large and single ones separately', () => {
    const graph = new Graph();
    const next = roundRobin(['/job:ps/task:0', '/job:ps/task:0', '/job:ps/task:0', '/job:ps/task:1']);
    const place = ({ type }: { type: string }) => (type === 'VarHandleOp' ? next() : '/job:worker/task:0');
    graph.asDefault(() =>
      graph.device(place, () => {
        const shapes = { a: [3], b: [2, 2], large: [200, 100], lonely: [3] };
        const variables = Object.entries(shapes).map(([name, shape]) => variable(name, { shape }));
        sgd(0.1).minimize(variables.map((v) => v.square().sum()).reduce((x, y) => x.add(y)));
      }),
    );
    const updates = graph.operations().filter(({ type }) => type === 'ResourceApplyGradientDescent');
    const sources = updates.map(({ inputs }) => inputs[2]?.op.device);
    expect(sources).toEqual(['/job:ps/task:0', '/job:ps/task:0', '/job:worker/task:0', '/job:worker/task:0']);
    expect(graph.operations().filter(({ type }) => type === 'ConcatV2')).toHaveLength(1);
  });

  it('unpacks packed gradients to the same values', async () => {
    const values = async (devices: readonly string[]) => {
      const graph = new Graph();
      const next = roundRobin(devices);
      const place = ({ type }: { type: string }) => (type === 'VarHandleOp' ? next() : '/device:CPU:0');
      const { train, init, outputs } = graph.asDefault(() =>
        graph.device(place, () => {
          const a = variable('a', { initializer: [1, 2, 3] });
          const b = variable('b', { initializer: [[4, 5]] });
          const c = variable('c', { initializer: 6 });
          const loss = a.square().sum().add(b.square().sum()).add(c.square());
          const train = adagrad(0.1).minimize(loss);
          return { train, init: globalVariablesInitializer(), outputs: [a.read(), b.read(), c.read()] };
        }),
      );
      await using session = Session.open({ graph, config: { deviceCount: { CPU: 2 } } });
      await session.run(init);
      for (let i = 0; i < 3; i++) await session.run(train);
      return (await session.run(outputs)).map((value) => value.toArray());
    };
    expect(await values(['/device:CPU:1'])).toEqual(await values(['/device:CPU:0']));
  });

  it('gradLoss scales the gradients', async () => {
    const graph = new Graph();
    const { trainOp, init, w } = graph.asDefault(() => {
      const w = variable('w', { initializer: 1 });
      const trainOp = sgd(0.1).minimize(w.mul(2), { gradLoss: 3 });
      return { trainOp, init: globalVariablesInitializer(), w: w.read() };
    });
    await using session = Session.open({ graph });
    await session.run(init);
    await session.run(trainOp);
    expect((await session.run(w)).number()).toBeCloseTo(0.4, 5);
  });

  it('does not update variables outside varList', async () => {
    const graph = new Graph();
    const { trainOp, init, all } = graph.asDefault(() => {
      const w = variable('w', { initializer: 1 });
      const v = variable('v', { initializer: 1 });
      const trainOp = sgd(0.1).minimize(w.mul(v), { varList: [v] });
      return { trainOp, init: globalVariablesInitializer(), all: [w.read(), v.read()] };
    });
    await using session = Session.open({ graph });
    await session.run(init);
    await session.run(trainOp);
    const [w, v] = (await session.run(all)).map((value) => value.number());
    expect(w).toBe(1);
    expect(v).toBeCloseTo(0.9, 5);
  });

  it('learning rates may be outputs', async () => {
    const graph = new Graph();
    const { trainOp, init, w } = graph.asDefault(() => {
      const w = variable('w', { initializer: 1 });
      const trainOp = sgd(constant(0.5, { dtype: 'float64' })).minimize(w.mul(1));
      return { trainOp, init: globalVariablesInitializer(), w: w.read() };
    });
    await using session = Session.open({ graph });
    await session.run(init);
    await session.run(trainOp);
    expect((await session.run(w)).number()).toBe(0.5);
  });

  it('AdamW does not decay excluded variables', async () => {
    const graph = new Graph();
    const { trainOp, init, all } = graph.asDefault(() => {
      const w = variable('w', { initializer: 1 });
      const bias = variable('bias', { initializer: 1 });
      const decays = ({ name }: Variable) => name !== 'bias';
      const trainOp = adamw(0.1, { weightDecay: 0.5, decays }).minimize(w.mul(0).add(bias.mul(0)));
      return { trainOp, init: globalVariablesInitializer(), all: [w.read(), bias.read()] };
    });
    await using session = Session.open({ graph });
    await session.run(init);
    await session.run(trainOp);
    const [w, bias] = (await session.run(all)).map((value) => value.number());
    expect(w).toBeCloseTo(0.95, 6);
    expect(bias).toBe(1);
  });
});

/** Whether an op waits for all of `targets`, by data or control edges. */
function reaches(from: Operation, targets: readonly Operation[]): boolean {
  const seen = new Set<Operation>([from]);
  for (const op of seen) {
    for (const input of op.inputs) seen.add(input.op);
    for (const control of op.controlInputs) seen.add(control);
  }
  return targets.every((target) => seen.has(target));
}

describe('errors', () => {
  const inGraph = (body: () => unknown): ShoalError => {
    try {
      new Graph().asDefault(body);
    } catch (error) {
      return error as ShoalError;
    }
    throw new Error('nothing was thrown');
  };
  const w = () => variable('w', { shape: [2] });

  it('no variables', () => {
    expect(inGraph(() => sgd(0.1).minimize(constant(1)))).toMatchObject({
      code: 'SHOAL_INVALID_ARGUMENT',
      message: expect.stringMatching(/GradientDescent: there are no variables to train/),
    });
  });

  it('no gradient for any variable: the error names the variables', () => {
    const error = inGraph(() => {
      const v = variable('v', { shape: [] });
      return sgd(0.1).minimize(stopGradient(w()).sum().add(stopGradient(v)));
    });
    expect(error).toMatchObject({
      code: 'SHOAL_NO_GRADIENT',
      message: expect.stringMatching(/no gradient.*'v', 'w'/),
    });
  });

  it('a weight that a whole number made an integer: the error names it and says how to make it a weight', () => {
    for (const cast of [false, true]) {
      const error = inGraph(() => {
        const count = newVariable(0, { name: 'count' });
        const b = newVariable(0.5, { name: 'b' });
        const y = cast ? count.toOutput().cast('float32').add(1) : stopGradient(count).cast('float32');
        return sgd(0.1).minimize(y.square().sum(), { varList: cast ? [count, b] : [count] });
      });
      expect(error.message).toMatch(/no gradient for any of its variables: 'count'.*; 'count' is int32$/s);
      expect(error).toMatchObject({
        code: 'SHOAL_NO_GRADIENT',
        hint: expect.stringMatching(/dtype: 'float32'/),
      });
    }
  });

  it('applyGradients without gradients', () => {
    expect(inGraph(() => sgd(0.1).applyGradients([[null, w()]])).message).toMatch(/no gradient.*'w'/);
    expect(inGraph(() => sgd(0.1).applyGradients([])).message).toMatch(/no gradients to apply/);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])('a learning rate of %s', (rate) => {
    expect(() => adam(rate)).toThrow(`The learning rate of Adam must be a finite number; got ${rate}`);
  });

  it('a learning rate of the wrong type', () => {
    expect(() => sgd('0.1' as never)).toThrow('must be a number, an output or a function of the step');
    expect(inGraph(() => sgd(constant(Int32Array.of(1))).minimize(w().sum())).message).toMatch(
      /learning_rate must be one floating-point number/,
    );
  });

  it('numbers out of range', () => {
    expect(() => ftrl(0)).toThrow('learning rate of Ftrl must be above 0');
    expect(() => ftrl(0.1, { learningRatePower: 0.5 })).toThrow('must be at most 0');
    expect(() => ftrl(0.1, { l1RegularizationStrength: -1 })).toThrow('must be at least 0');
    expect(() => adagrad(0.1, { initialAccumulatorValue: 0 })).toThrow('must be above 0');
    expect(() => adam(0.1, { beta1: 1.5 })).toThrow('must be at most 1');
  });

  it('a schedule without a global step', () => {
    const error = inGraph(() =>
      sgd(exponentialDecay(0.1, { decaySteps: 1, decayRate: 0.5 })).minimize(w().sum()),
    );
    expect(error.message).toMatch(/function of the step, but there is no global step/);
  });

  it('only variables that are not floating-point, which have no gradients', () => {
    const error = inGraph(() => {
      const count = variable('count', { shape: [], dtype: 'int32', initializer: zerosInitializer() });
      return sgd(0.1).minimize(count.cast('float32'), { varList: [count] });
    });
    expect(error.message).toMatch(/no gradient for any of its variables: 'count'/);
  });

  it('a loss that is not floating-point', () => {
    expect(inGraph(() => sgd(0.1).minimize(w().sum().cast('int32'))).message).toMatch(/loss.* is int32/);
  });

  it('gradients of another dtype or shape', () => {
    const type = inGraph(() => sgd(0.1).applyGradients([[zeros([2], 'float64'), w()]]));
    expect(type.message).toMatch(/gradient of variable 'w' is float64, the variable is float32/);
    const shape = inGraph(() => sgd(0.1).applyGradients([[zeros([3]), w()]]));
    expect(shape.message).toMatch(/has shape \[3\], the variable \[2\]/);
  });

  it('a variable passed twice, or a PartitionedVariable', () => {
    const twice = inGraph(() => {
      const v = w();
      return sgd(0.1).applyGradients([
        [zeros([2]), v],
        [zeros([2]), v],
      ]);
    });
    expect(twice.message).toMatch(/'w' is passed to GradientDescent twice/);
    const whole = inGraph(() => {
      const p = partitionedVariable('p', { shape: [4], partitioner: fixedSizePartitioner(2) });
      return sgd(0.1).applyGradients([[zeros([4]), p as never]]);
    });
    expect(whole.hint).toMatch(/with its partition/);
  });
});

function roundRobin<T>(values: readonly T[]): () => T {
  let i = 0;
  return () => values[i++ % values.length] as T;
}
