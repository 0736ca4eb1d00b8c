/** Layer names, weight sharing, and error messages. */
import { describe, expect, it } from 'vitest';
import { described } from '../../../test/described.js';
import { Graph } from '../graph/graph.js';
import { placeholder } from '../ops/index.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import {
  GraphKeys,
  globalVariables,
  globalVariablesInitializer,
  trainableVariables,
  variableScope,
} from '../variables/index.js';
import { batchNorm, conv2d, dense, flatten, layerNorm } from './layers.js';
import * as regularizers from './regularizers.js';

const inGraph = <T>(body: (graph: Graph) => T): T => {
  using graph = new Graph();
  return graph.asDefault(() => body(graph));
};
const names = (): string[] => globalVariables().map(({ name }) => name);
const rows = () => placeholder({ shape: [null, 4] });

describe('the names of layers', () => {
  it('count up as in TensorFlow 1', () => {
    inGraph(() => {
      dense(dense(rows(), 3), 2);
      dense(rows(), 2, { name: 'logits' });
      batchNorm(rows());
      layerNorm(rows());
      conv2d(placeholder({ shape: [null, 8, 8, 1] }), 2, 3);
      expect(names()).toEqual([
        'dense/kernel',
        'dense/bias',
        'dense_1/kernel',
        'dense_1/bias',
        'logits/kernel',
        'logits/bias',
        'batch_normalization/gamma',
        'batch_normalization/beta',
        'batch_normalization/moving_mean',
        'batch_normalization/moving_variance',
        'layer_normalization/gamma',
        'layer_normalization/beta',
        'conv2d/kernel',
        'conv2d/bias',
      ]);
    });
  });

  it('skip an explicitly given name', () => {
    inGraph(() => {
      dense(rows(), 3, { name: 'dense' });
      dense(rows(), 3);
      expect(names()).toEqual(['dense/kernel', 'dense/bias', 'dense_1/kernel', 'dense_1/bias']);
    });
  });

  it('restart with each entry into a scope', () => {
    inGraph(() => {
      const tower = () => dense(dense(rows(), 4), 4);
      variableScope('a', tower);
      variableScope('b', tower);
      expect(names().filter((name) => name.endsWith('kernel'))).toEqual([
        'a/dense/kernel',
        'a/dense_1/kernel',
        'b/dense/kernel',
        'b/dense_1/kernel',
      ]);
    });
  });
});

describe('layers that share weights', () => {
  it('share in a scope with reuse, and count the penalty once', () => {
    inGraph((graph) => {
      const tower = () => dense(rows(), 2, { kernelRegularizer: regularizers.l2() });
      variableScope('tower', tower);
      variableScope('tower', tower, { reuse: true });
      expect(names()).toEqual(['tower/dense/kernel', 'tower/dense/bias']);
      expect(graph.getCollection(GraphKeys.regularizationLosses)).toHaveLength(1);
    });
  });

  it('share by name with reuse, and give the same results', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const x = rows();
      const [one, two] = [dense(x, 2, { name: 'd' }), dense(x, 2, { name: 'd', reuse: true })];
      await using session = Session.open({ graph });
      await session.run(globalVariablesInitializer());
      const values = await session.run([one, two], { feeds: [[x, [[1, 2, 3, 4]]]] });
      expect(values[0].toArray()).toEqual(values[1].toArray());
    });
  });

  it('fail without reuse, with a hint how to share', () => {
    inGraph(() => {
      variableScope('tower', () => dense(rows(), 2));
      expect(() => variableScope('tower', () => dense(rows(), 2))).toThrow(
        described(/Variable 'tower\/dense\/kernel' already exists\n.*reuse: true/),
      );
    });
  });

  it('fail if the shapes differ, and the error shows both', () => {
    inGraph(() => {
      dense(rows(), 2, { name: 'd' });
      expect(() => dense(rows(), 3, { name: 'd', reuse: true })).toThrow(/\[4, 2\].*\[4, 3\]/);
    });
  });
});

describe('trainable variables', () => {
  it('exclude layers that are not trainable, and moving averages', () => {
    inGraph(() => {
      dense(rows(), 2, { trainable: false, name: 'frozen' });
      batchNorm(rows(), { training: true });
      expect(trainableVariables().map(({ name }) => name)).toEqual([
        'batch_normalization/gamma',
        'batch_normalization/beta',
      ]);
    });
  });
});

describe('a layer that cannot be built', () => {
  it('names the axis whose size must be known', () => {
    inGraph(() => {
      expect(() => dense(placeholder({ shape: [4, null] }), 2)).toThrow(
        /Layer dense: the size of axis -1 of Output\('Placeholder:0', float32 \[4, \?\]\) must be known/,
      );
    });
  });

  it('reports the expected rank', () => {
    inGraph(() => {
      expect(() => conv2d(rows(), 2, 3)).toThrow(/conv2d needs an input of rank 4; .*\[\?, 4\]\) has rank 2/);
    });
  });

  it('rejects units that are not a positive integer', () => {
    inGraph(() => {
      expect(() => dense(rows(), 2.5)).toThrow(/units must be a positive integer; got 2.5/);
    });
  });
});

describe('flatten', () => {
  it.each([
    [
      [2, 3, 4],
      [2, 12],
    ],
    [
      [null, 3, 4],
      [null, 12],
    ],
    [
      [2, null, 4],
      [2, null],
    ],
    [
      [null, null, 4],
      [null, null],
    ],
    [[5], [5, 1]],
    [
      [null, 0],
      [null, 0],
    ],
    [null, [null, null]],
  ])('reshapes %j to %j', async (shape, flat) => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const x = placeholder({ shape });
      const y = flatten(x);
      if (shape !== null) expect(y.shape).toEqual(flat);
      const sizes = shape === null ? [2, 3] : shape.map((size) => size ?? 2);
      const total = sizes.reduce((a, b) => a * b, 1);
      await using session = Session.open({ graph });
      const value = await session.run(y, { feeds: [[x, Tensor.zeros(sizes)]] });
      const width = sizes.slice(1).reduce((a, b) => a * b, 1);
      expect(value.shape).toEqual([sizes[0], width]);
      expect(value.size).toBe(total);
    });
  });
});
