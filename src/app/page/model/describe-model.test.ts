import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { Graph } from '../../../tensorflow/graph/graph.js';
import * as tf from '../../tf/index.js';
import type { PageModel } from '../state.js';
import { describeModel } from './describe-model.js';
import { type ModelNode, modelOfGraph, modelOfGraphDef } from './model-graph.js';

/** Two dense layers whose variables are on two ps. */
function denseGraph(): Graph {
  const graph = new Graph();
  graph.asDefault(() => {
    const setter = tf.train.replicaDeviceSetter({ psTasks: 2, workerDevice: '/job:worker/task:0' });
    graph.device(setter, () => {
      const x = tf.placeholder({ dtype: 'float32', shape: [null, 784] });
      const hidden = tf.layers.dense(x, 100, { name: 'hidden', activation: tf.relu });
      const loss = tf.layers.dense(hidden, 10, { name: 'logits' }).square().mean();
      tf.train.adam(0.1).minimize(loss);
    });
  });
  return graph;
}

const moduleOf = ({ modules }: PageModel, path: string) => modules.find((module) => module.path === path);

test('a model is its modules with shapes, and which ps holds what', async () => {
  const model = describeModel(await modelOfGraph(denseGraph()));
  const hidden = moduleOf(model, 'hidden')!;
  // The kernel, the bias, and two slots of each.
  expect([hidden.variables, hidden.bytes]).toEqual([6, 3 * 4 * (784 * 100 + 100)]);
  expect(hidden.tasks).toEqual(['ps/0', 'ps/1', 'worker/0']);
  expect(hidden.units.map(({ name, kind, shape }) => `${kind} ${name} ${shape}`)).toEqual([
    'variable hidden/kernel [784, 100]',
    'op hidden/MatMul [?, 100]',
    'variable hidden/bias [100]',
    'op hidden/BiasAdd [?, 100]',
    'op hidden/Relu [?, 100]',
  ]);
  expect(hidden.edges).toEqual([
    [0, 1],
    [1, 3],
    [2, 3],
    [3, 4],
  ]);
  const { units, edges } = moduleOf(model, '')!;
  const flow = edges.map(([from, to]) => `${units[from]!.name} → ${units[to]!.name}`);
  expect(flow).toEqual(expect.arrayContaining(['Placeholder → hidden', 'hidden → logits']));
  expect(units.some(({ name }) => /gradients|Adam/.test(name))).toBe(false);
  expect(model.variables[0]).toEqual({
    ...{ name: 'hidden/kernel', dtype: 'float32', shape: '[784, 100]', bytes: 313_600, task: 'ps/0' },
  });
  const total = model.placement.reduce((sum, { bytes }) => sum + bytes, 0);
  expect(total).toBe(moduleOf(model, '')!.bytes);
  expect(model.placement.map(({ task }) => task)).toEqual(['ps/0', 'ps/1']);
});

test('a stored graph gives the same, without the shapes of ops', async () => {
  const graph = denseGraph();
  const live = describeModel(await modelOfGraph(graph));
  const stored = describeModel(modelOfGraphDef(graph.toGraphDef()));
  expect(stored.placement).toEqual(live.placement);
  expect(stored.variables).toEqual(live.variables);
  expect(stored.modules.map(({ path, edges }) => [path, edges])).toEqual(
    live.modules.map(({ path, edges }) => [path, edges]),
  );
});

test('of a very large graph a bounded part is shown, and all bytes are counted', () => {
  const nodes: ModelNode[] = [];
  for (let layer = 0; layer < 5000; layer++) {
    const name = `block_${layer % 500}/layer_${layer}`;
    const inputs = layer === 0 ? [] : [{ op: `block_${(layer - 1) % 500}/layer_${layer - 1}/y`, index: 0 }];
    const device = `/job:ps/task:${layer % 200}`;
    const variable = { dtype: 'float32', shape: [250] } as const;
    nodes.push({ name: `${name}/w`, type: 'VarHandleOp', device, inputs: [], variable });
    const w = { op: `${name}/w`, index: 0 };
    nodes.push({
      ...{ name: `${name}/y`, type: 'Add', device },
      inputs: [...inputs, w],
      variable: undefined,
    });
  }
  const model = describeModel({ nodes, shapeOf: () => [100, 100] });
  expect(model.ops).toBe(10_000);
  expect(model.placement).toHaveLength(200);
  expect(model.placement.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(5000 * 1000);
  expect(model.variables.length + model.moreVariables).toBe(5000);
  expect(model.moreModules).toBeGreaterThan(0);
  for (const { units, edges } of model.modules) {
    expect(units.length).toBeLessThanOrEqual(40);
    expect(edges.flat().every((unit) => unit < units.length)).toBe(true);
  }
  expect(gzipSync(JSON.stringify(model)).byteLength).toBeLessThan(50_000);
});
