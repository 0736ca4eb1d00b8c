/** Operands of the high-level op API: chaining, literals, invalid arguments, seeds. */
import { describe, expect, test } from 'vitest';
import type { ShoalError } from '../../base/errors/errors.js';
import { Graph } from '../graph/graph.js';
import { Output } from '../graph/operation.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import { newVariable } from '../variables/variable-scope.js';
import * as tf from './index.js';

const M = [
  [1, 2, 3],
  [4, 5, 6],
];

describe('chaining', () => {
  const run = (build: (x: Output) => Output) => {
    using graph = new Graph();
    using session = Session.open({ graph });
    return session.runSync(graph.asDefault(() => build(tf.constant(M)))).toArray();
  };

  test('is available on every output and equals the functions', () => {
    expect(
      run((x) =>
        x
          .matMul([[1], [1], [1]])
          .add(1)
          .mul(2),
      ),
    ).toEqual([[14], [32]]);
    expect(run((x) => x.sum(1).square().neg())).toEqual([-36, -225]);
    expect(run((x) => x.transpose().reshape([2, 3]).slice([0, 0], [1, 2]))).toEqual([[1, 4]]);
    expect(run((x) => x.mean(0, true).cast('int32'))).toEqual([[2, 3, 4]]);
    expect(run((x) => x.gather([1]).clipByValue(4.5, 5.5).expandDims(0).squeeze([0, 1]))).toEqual([
      4.5, 5, 5.5,
    ]);
  });

  test('has every declared method', () => {
    for (const name of [
      'relu',
      'softmax',
      'argMax',
      'tile',
      'logicalNot',
      'stopGradient',
      'flatten',
      'max',
      'pow',
    ]) {
      expect(typeof Output.prototype[name as keyof Output], name).toBe('function');
    }
  });
});

describe('literals', () => {
  const dtypeOf = (build: () => Output) => new Graph().asDefault(build).dtype;

  test('take the dtype of the other inputs, in any position', () => {
    expect(dtypeOf(() => tf.add(tf.constant([1], { dtype: 'int64' }), 1))).toBe('int64');
    expect(dtypeOf(() => tf.sub(1, tf.constant([1], { dtype: 'float64' })))).toBe('float64');
    expect(dtypeOf(() => tf.concat([[1], tf.constant([2], { dtype: 'int32' })]))).toBe('int32');
    expect(dtypeOf(() => tf.where([true], 1, tf.constant([2], { dtype: 'int32' })))).toBe('int32');
  });

  test('have their default dtype without other inputs', () => {
    expect(dtypeOf(() => tf.add(1, 2))).toBe('float32');
    expect(dtypeOf(() => tf.add(1n, 2n))).toBe('int64');
  });

  test('that do not fit the dtype are an error', () => {
    expect(() => dtypeOf(() => tf.add(tf.constant([1], { dtype: 'int32' }), 1.5))).toThrow(
      '1.5 is out of range for int32',
    );
    expect(() => dtypeOf(() => tf.logicalAnd([true], 1.5))).toThrow('cannot be an element of a bool tensor');
  });
});

describe('inputs of different dtypes', () => {
  const refused = (build: () => Output) => {
    try {
      new Graph().asDefault(build);
    } catch (error) {
      return error as ShoalError;
    }
    throw new Error('nothing was thrown');
  };
  const x = () => tf.placeholder({ name: 'x' });

  test('an integer variable is named, with the way to make it a weight', () => {
    for (const build of [
      () => newVariable(0, { name: 'w' }).mul(x()),
      () => x().mul(newVariable(0, { name: 'w' })),
    ]) {
      const error = refused(build);
      expect(error.message).toMatch(/Mul needs inputs of one dtype: .*variable 'w' is int32/);
      expect(error.message).toMatch(/'x:0' is float32/);
      expect(error.hint).toMatch(/newVariable\(0\).*dtype: 'float32'/);
    }
  });

  test('other inputs are named', () => {
    const error = refused(() => tf.add(x(), tf.constant(1, { dtype: 'int32', name: 'one' })));
    expect(error.message).toMatch(/AddV2 needs inputs of one dtype: 'x:0' is float32, 'one:0' is int32/);
    expect(error.hint).toMatch(/tf\.cast/);
  });
});

describe('invalid arguments are errors with a reason', () => {
  const attempt = (build: () => unknown) => () => new Graph().asDefault(build);
  test.each([
    ['an axis out of range', () => tf.sum(M, { axis: 2 }), 'Axis 2 is out of range'],
    ['joining nothing', () => tf.concat([]), 'at least one tensor'],
    [
      'unstacking an unknown size',
      () => tf.unstack(tf.placeholder({ shape: [null] })),
      'needs a known size of axis 0',
    ],
    [
      'a mask that does not fit',
      () => tf.booleanMask(M, [true, false, true]),
      'does not match the leading axes',
    ],
    [
      'a constant of another type',
      () => tf.constant(Tensor.of(1), { dtype: 'int32' }),
      'Expected a int32 tensor',
    ],
    ['ones of strings', () => tf.ones([2], 'string'), 'does not support dtype string'],
    ['a scalar instead of a list', () => tf.raw.addN(1 as never), "Input 'inputs' of AddN must be a list"],
  ])('%s', (_, build, message) => expect(attempt(build)).toThrow(message));
});

describe('random numbers', () => {
  const draw = (build: () => Output, times = 1) => {
    using graph = new Graph();
    using session = Session.open({ graph });
    const output = graph.asDefault(build);
    return Array.from({ length: times }, () => Array.from(session.runSync(output).data as Float32Array));
  };
  const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

  test('have the expected range and moments', () => {
    const [uniform] = draw(() => tf.randomUniform([2000], -1, 3, { seed: 1 })) as [number[]];
    expect(Math.min(...uniform)).toBeGreaterThanOrEqual(-1);
    expect(Math.max(...uniform)).toBeLessThan(3);
    expect(mean(uniform)).toBeCloseTo(1, 0);
    const [normal] = draw(() => tf.randomNormal([2000], 5, 2, { seed: 1 })) as [number[]];
    expect(mean(normal)).toBeCloseTo(5, 0);
    const [cut] = draw(() => tf.truncatedNormal([2000], 5, 2, { seed: 1 })) as [number[]];
    expect(Math.max(...cut.map((x) => Math.abs(x - 5)))).toBeLessThan(4.001);
    const [ints] = draw(() => tf.cast(tf.randomUniform([500], 3, 6, { dtype: 'int32', seed: 1 }), 'float32'));
    expect([...new Set(ints)].sort()).toEqual([3, 4, 5]);
    const [shuffled] = draw(() => tf.randomShuffle([1, 2, 3, 4, 5], { seed: 3 })) as [number[]];
    expect([...shuffled].sort()).toEqual([1, 2, 3, 4, 5]);
  });

  test('are reproducible with an op seed or a graph seed, and differ between runs', () => {
    const seeded = () => draw(() => tf.randomUniform([3], 0, 1, { seed: 7 }), 2);
    expect(seeded()).toEqual(seeded());
    expect(seeded()[0]).not.toEqual(seeded()[1]);
    const ofGraph = () =>
      draw(() => {
        tf.setRandomSeed(5);
        return tf.randomNormal([3]);
      });
    expect(ofGraph()).toEqual(ofGraph());
    expect(draw(() => tf.randomUniform([3]))).not.toEqual(draw(() => tf.randomUniform([3])));
  });
});
