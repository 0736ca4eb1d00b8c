import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { tf } from '../../index.js';
import { IndexedSlices } from '../gradients/indexed-slices.js';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import type { Fetches } from '../session/fetches.js';
import { Session } from '../session/session.js';
import type { Variable } from './variable.js';

let graph: Graph;
let session: Session;
beforeEach(() => {
  graph = new Graph();
  session = Session.open({ graph });
});
afterEach(() => session.close());

const inGraph = <T>(body: () => T): T => graph.asDefault(body);
const initialize = () => session.run(tf.globalVariablesInitializer(graph));
const value = async (fetch: Fetches) => ((await session.run(fetch)) as { toArray(): unknown }).toArray();

describe('a variable', () => {
  test('has an initial value, is read and assigned', async () => {
    const v = inGraph(() => tf.variable('v', { initializer: [1, 2] }));
    expect(await value(v.isInitialized())).toBe(false);
    await session.run(v.initializer);
    expect(await value(v.isInitialized())).toBe(true);
    for (const [op, expected] of [
      [() => v.assign([3, 4]), [3, 4]],
      [() => v.assignAdd([1, 1]), [4, 5]],
      [() => v.assignSub([2, 2]), [2, 3]],
      [() => v.scatterUpdate([0], [9]), [9, 3]],
      [() => v.scatterAdd([1, 1], [1, 1]), [9, 5]],
    ] as const) {
      await session.run(inGraph(op));
      expect(await value(v)).toEqual(expected);
    }
    expect(await value(inGraph(() => v.gather([1, 1])))).toEqual([5, 5]);
    expect(await value(inGraph(() => v.add(1).mul(2)))).toEqual([20, 12]);
  });

  test('is read in part by gather and gatherNd', async () => {
    const v = inGraph(() =>
      tf.variable('table', {
        initializer: [
          [1, 2],
          [3, 4],
          [5, 6],
        ],
      }),
    );
    await session.run(v.initializer);
    for (const [make, type, expected] of [
      [
        () => tf.gather(v, [2, 0]),
        'ResourceGather',
        [
          [5, 6],
          [1, 2],
        ],
      ],
      [
        () =>
          tf.gatherNd(v, [
            [1, 1],
            [0, 0],
          ]),
        'ResourceGatherNd',
        [4, 1],
      ],
      [() => tf.gather(v, [1], { axis: 1 }), 'GatherV2', [[2], [4], [6]]],
      [() => v.gather([1], { axis: 1 }), 'GatherV2', [[2], [4], [6]]],
    ] as const) {
      const rows = inGraph(make);
      expect(rows.op.type).toBe(type);
      expect(await value(rows)).toEqual(expected);
    }
    const rows = inGraph(() => tf.gather(v, [1, 1]));
    const [gradient] = inGraph(() => tf.gradients(rows, [v]));
    expect(gradient).toBeInstanceOf(IndexedSlices);
  });

  test('has TensorFlow’s op names', () => {
    const v = inGraph(() => tf.variable('v', { shape: [2] }));
    expect(v).toMatchObject({ name: 'v', dtype: 'float32', shape: [2], trainable: true, fullShape: [2] });
    expect(v.handle.name).toBe('v:0');
    expect(v.initializer.name).toBe('v/Assign');
    expect(v.toOutput().name).toBe('v/Read/ReadVariableOp:0');
    expect(v.initialValue.op.name).toMatch(/^v\/Initializer\//);
  });

  test('is in the collections of variables, trainable or not', () => {
    const [a, b] = inGraph(() => [
      tf.variable('a', { shape: [] }),
      tf.variable('b', { shape: [], trainable: false }),
    ]) as [Variable, Variable];
    const c = inGraph(() => tf.variable('c', { shape: [], collections: ['local_variables'] }));
    expect(tf.globalVariables(graph)).toEqual([a, b]);
    expect(tf.trainableVariables(graph)).toEqual([a]);
    expect(tf.localVariables(graph)).toEqual([c]);
  });

  test('is on the device of its scope, with its reads and its initial value', () => {
    const v = inGraph(() => tf.device('/job:ps/task:1', () => tf.variable('v', { shape: [] })));
    expect(v.device).toBe('/job:ps/task:1');
    expect([v.initializer.device, v.toOutput().op.device]).toEqual(['/job:ps/task:1', '/job:ps/task:1']);
    const read = inGraph(() => tf.device('/job:worker', () => v.read()));
    expect(read.op.device).toBe('/job:ps/task:1');
  });

  test('is named in the error if it is uninitialized', async () => {
    const v = inGraph(() => tf.variable('weights', { shape: [] }));
    await expect(session.run(v)).rejects.toMatchObject({
      hint: expect.stringContaining('Variable weights has no value yet'),
    });
    const missing = inGraph(() => tf.reportUninitializedVariables());
    expect(await value(missing)).toEqual(['weights']);
    await initialize();
    expect(await value(missing)).toEqual([]);
  });
});

describe('variable scopes', () => {
  test('prefix variable names, and share variables with reuse', () => {
    inGraph(() => {
      const layer = () => tf.variable('w', { shape: [2] });
      const first = tf.variableScope('layer', layer);
      expect(first.name).toBe('layer/w');
      expect(tf.variableScope('layer', layer, { reuse: true })).toBe(first);
      expect(tf.variableScope('layer', layer, { reuse: 'auto' })).toBe(first);
      expect(() => tf.variableScope('layer', layer)).toThrow(/'layer\/w' already exists/);
      expect(tf.variableScope('a', () => tf.variableScope('b', layer)).name).toBe('a/b/w');
      expect(() => tf.variableScope('none', layer, { reuse: true })).toThrow(/'none\/w' does not exist/);
    });
  });

  test('check the shape and dtype of reused variables', () => {
    inGraph(() => {
      tf.variable('w', { shape: [2] });
      const again = (options: object) => () =>
        tf.variableScope('', () => tf.variable('w', options), { reuse: true });
      expect(again({ shape: [3] })).toThrow('has shape [2]; requested [3]');
      expect(again({ dtype: 'int32' })).toThrow('is float32; requested int32');
    });
  });

  test('inherit initializer and partitioner', async () => {
    const parts = inGraph(() =>
      tf.variableScope('s', () => tf.getVariable('w', { shape: [4] }), {
        initializer: tf.onesInitializer(),
        partitioner: tf.fixedSizePartitioner(2),
      }),
    );
    await initialize();
    expect(await value(parts)).toEqual([1, 1, 1, 1]);
    expect((parts as { parts?: unknown[] }).parts).toHaveLength(2);
  });

  test('give variables of newVariable unique names', () => {
    const names = inGraph(() => [1, 2].map((initial) => tf.newVariable(initial).name));
    expect(names).toEqual(['Variable', 'Variable_1']);
  });

  test('a variable without a shape or a value is an error', () => {
    expect(() => inGraph(() => tf.variable('w'))).toThrow("Variable 'w' needs a shape or an initial value");
  });
});

describe('in a function', () => {
  test('variables are created outside it, under the enclosing scopes and devices', async () => {
    const made: Variable[] = [];
    const result = inGraph(() =>
      tf.device('/cpu:0', () =>
        tf.variableScope('model', () =>
          tf.condOne(
            true,
            () => {
              const v = tf.variable('w', { initializer: 5 });
              made.push(v);
              return v.add(1);
            },
            () => 0,
          ),
        ),
      ),
    );
    expect(made.map(({ name, device, graph: own }) => [name, device, own === graph])).toEqual([
      ['model/w', '/device:CPU:0', true],
    ]);
    expect(tf.globalVariables(graph)).toEqual(made);
    await initialize();
    expect(await value(result)).toBe(6);
  });
});

describe('a partitioned variable', () => {
  test('is split along one axis, with the remainder in the first partitions, and concatenated when read', async () => {
    const rows = [
      [1, 1],
      [2, 2],
      [3, 3],
      [4, 4],
      [5, 5],
    ];
    const whole = inGraph(() =>
      tf.partitionedVariable('table', { initializer: rows, partitioner: tf.fixedSizePartitioner(2) }),
    );
    expect(whole.parts.map(({ name, shape }) => [name, shape])).toEqual([
      ['table/part_0', [3, 2]],
      ['table/part_1', [2, 2]],
    ]);
    expect(whole.parts[1]?.sliceInfo).toEqual({
      fullName: 'table',
      fullShape: [5, 2],
      offset: [3, 0],
      shape: [2, 2],
    });
    await initialize();
    expect(await value(whole)).toEqual(rows);
    expect(await value(whole.parts[1] as Variable)).toEqual(rows.slice(3));
  });

  test('has separate reads under control dependencies, and a shared read elsewhere', async () => {
    const reads = inGraph(() => {
      const table = tf.partitionedVariable('table', {
        initializer: [1, 2],
        partitioner: tf.fixedSizePartitioner(2),
      });
      const change = (table.parts[0] as Variable).assignAdd([10]);
      const after = tf.controlDependencies([change], () => table.toOutput());
      expect(table.toOutput()).toBe(table.toOutput());
      return { after, plain: table.toOutput() };
    });
    await initialize();
    expect(await value(reads.plain)).toEqual([1, 2]);
    expect(await value(reads.after)).toEqual([11, 2]);
    expect(await value(reads.plain)).toEqual([11, 2]);
  });

  test.each([
    ['fixedSizePartitioner', () => tf.fixedSizePartitioner(3), [3, 1]],
    ['fixedSizePartitioner of more parts than rows', () => tf.fixedSizePartitioner(99), [10, 1]],
    ['fixedSizePartitioner of another axis', () => tf.fixedSizePartitioner(2, 1), [1, 2]],
    ['variableAxisSizePartitioner', () => tf.variableAxisSizePartitioner(4 * 4 * 3), [4, 1]],
    [
      'variableAxisSizePartitioner with a bound',
      () => tf.variableAxisSizePartitioner(16, { maxShards: 2 }),
      [2, 1],
    ],
    ['minMaxVariablePartitioner', () => tf.minMaxVariablePartitioner(5, { minSliceBytes: 64 }), [3, 1]],
  ])('%s splits 10 rows of 4 floats', (_, make, cuts) => {
    expect(make()([10, 4], 'float32')).toEqual(cuts);
  });

  test('with two split axes is an error', () => {
    const partitioner = () => [2, 2];
    expect(() => inGraph(() => tf.partitionedVariable('t', { shape: [4, 4], partitioner }))).toThrow(
      'must split one axis',
    );
    expect(() => inGraph(() => tf.partitionedVariable('t', { shape: [4] }))).toThrow('needs a partitioner');
  });
});

describe('initializers', () => {
  const SIZE = 200;
  const draw = async (initializer: ReturnType<typeof tf.zerosInitializer>, shape = [SIZE, SIZE]) =>
    Array.from((await session.run(inGraph(() => initializer(shape, 'float32')))).data as Float32Array);
  const deviation = (values: readonly number[]) =>
    Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);

  test.each([
    ['zeros', () => tf.zerosInitializer(), 0],
    ['ones', () => tf.onesInitializer(), 1],
    ['a constant', () => tf.constantInitializer(7), 7],
  ])('%s fill', async (_, make, expected) => {
    expect(await draw(make(), [2])).toEqual([expected, expected]);
  });

  // Root mean squares by definition, for 200 inputs and 200 outputs.
  test.each([
    ['glorotUniform', () => tf.glorotUniform({ seed: 1 }), Math.sqrt(1 / SIZE)],
    ['glorotNormal', () => tf.glorotNormal({ seed: 1 }), Math.sqrt(1 / SIZE)],
    ['heUniform', () => tf.heUniform({ seed: 1 }), Math.sqrt(2 / SIZE)],
    ['heNormal', () => tf.heNormal({ seed: 1 }), Math.sqrt(2 / SIZE)],
    ['randomNormalInitializer', () => tf.randomNormalInitializer(0, 3, { seed: 1 }), 3],
    ['randomUniformInitializer', () => tf.randomUniformInitializer(-1, 1, { seed: 1 }), Math.sqrt(1 / 3)],
    ['truncatedNormalInitializer', () => tf.truncatedNormalInitializer(0, 1, { seed: 1 }), 0.8796],
  ])('%s has the expected magnitude', async (_, make, expected) => {
    expect(deviation(await draw(make())) / expected).toBeCloseTo(1, 1);
  });

  test('an orthogonal matrix times its transpose is the identity', async () => {
    for (const shape of [
      [4, 4],
      [2, 5],
      [5, 2],
    ]) {
      const matrix = inGraph(() => tf.orthogonal({ seed: 3 })(shape, 'float32'));
      const [rows = 0, columns = 0] = shape;
      const product = inGraph(() =>
        tf.matMul(matrix, matrix, rows > columns ? { transposeA: true } : { transposeB: true }),
      );
      const off = inGraph(() => tf.max(tf.abs(product.sub(tf.eye(Math.min(rows, columns))))));
      expect((await session.run(off)).number()).toBeLessThan(1e-5);
    }
  });
});

describe('the global step', () => {
  test('is unique per graph, int64, and not trainable', async () => {
    const step = tf.getOrCreateGlobalStep(graph);
    expect(tf.getOrCreateGlobalStep(graph)).toBe(step);
    expect(tf.getGlobalStep(graph)).toBe(step);
    expect(step).toMatchObject({ name: 'global_step', dtype: 'int64', trainable: false });
    expect(() => tf.createGlobalStep(graph)).toThrow('already has a global step');
    await initialize();
    await session.run(inGraph(() => step.assignAdd(1n)));
    expect(await value(step)).toBe(1n);
  });
});

test('reading a variable outside all scopes creates no graph', () => {
  const v = inGraph(() => tf.variable('v', { shape: [] }));
  const read: Output = v.toOutput();
  expect(read.graph).toBe(graph);
  expect(v.add(1).graph).toBe(graph);
});
