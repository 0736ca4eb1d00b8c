/** Interoperability with Python TensorFlow: same names and devices, and GraphDefs in both directions. */
import { beforeAll, describe, expect, test } from 'vitest';
import { askPython } from '../../../test/python.js';
import { tf } from '../../index.js';
import { Session } from '../session/session.js';
import { exportMetaGraph, metaGraphBytes } from '../variables/meta-graph.js';
import type { Variable } from '../variables/variable.js';
import { Graph } from './graph.js';
import type { Output } from './operation.js';

type Step = readonly ['op' | 'enter' | 'unique', string] | readonly ['leave', ''];

const NAME_SCRIPT: readonly Step[] = [
  ['op', 'a'],
  ['op', 'a'],
  ['op', 'A'],
  ['op', 'a_1'],
  ['op', 'a'],
  ['op', 'b_1'],
  ['op', 'b'],
  ['op', 'b'],
  ['enter', 'a'],
  ['op', 'a'],
  ['op', 'a'],
  ['enter', 'inner'],
  ['op', 'x'],
  ['leave', ''],
  ['enter', 'inner'],
  ['op', 'x'],
  ['unique', 'x'],
  ['op', 'x'],
  ['leave', ''],
  ['leave', ''],
  ['enter', 'scope'],
  ['op', 'x'],
  ['leave', ''],
  ['enter', 'scope'],
  ['op', 'x'],
  ['leave', ''],
  ['enter', 'scope/'],
  ['op', 'x'],
  ['enter', 'deep'],
  ['op', 'y'],
  ['leave', ''],
  ['leave', ''],
  ['op', 'scope'],
  ['enter', 'SCOPE'],
  ['op', 'x'],
  ['leave', ''],
  ['op', 'scope/x'],
  ['op', 'with.dot-and_more/x'],
  ['op', 'with.dot-and_more/x'],
];

function ourNames(script: readonly Step[]): string[] {
  const graph = new Graph();
  const made: string[] = [];
  const walk = (at: number): number => {
    while (at < script.length) {
      const [word, argument] = script[at] as Step;
      if (word === 'leave') return at + 1;
      if (word === 'op') made.push(graph.op('NoOp', [], {}, { name: argument }).name);
      if (word === 'unique') made.push(graph.uniqueName(argument));
      at =
        word === 'enter'
          ? graph.nameScope(argument, (prefix) => {
              made.push(prefix);
              return walk(at + 1);
            })
          : at + 1;
    }
    return at;
  };
  walk(0);
  return made;
}

const DEVICE_STACKS: readonly (readonly string[])[] = [
  ['/cpu:0'],
  ['/job:ps/task:1'],
  ['/job:worker', '/job:ps'],
  ['/job:worker/task:2/device:CPU:0', '/task:3'],
  ['/job:worker/replica:0', '/device:GPU:1'],
  ['/device:CPU:0', '/job:ps/task:0/cpu:1'],
  ['/gpu:0', '/job:a', '/task:7'],
];

const ourDevice = (stack: readonly string[]): string => {
  const graph = new Graph();
  const enter = (i: number): string =>
    i === stack.length ? graph.op('NoOp').device : graph.device(stack[i] as string, () => enter(i + 1));
  return enter(0);
};

function ourModel() {
  const graph = new Graph();
  return graph.asDefault(() => {
    const x = tf.placeholder({ shape: [null, 2], name: 'x' });
    const w = tf.variable('w', { initializer: [[1], [2]], shape: [2, 1] });
    const step = tf.getOrCreateGlobalStep();
    const table = tf.partitionedVariable('table', {
      shape: [4, 1],
      initializer: [[1], [2], [3], [4]],
      partitioner: tf.fixedSizePartitioner(2),
    });
    const y = tf.matMul(x, w).add(tf.sum(table));
    const [looped] = tf
      .whileLoop(
        (i, _) => i.less(3),
        (i, s) => [i.add(1), s.add(tf.sum(y))],
        [0, 0],
      )
      .slice(1) as [Output];
    const [chosen] = tf.cond(
      looped.greater(0),
      () => looped,
      () => looped.neg(),
    ) as [Output];
    graph.addToCollection('inputs', x);
    graph.addToCollection('words', 'one');
    graph.addToCollection('numbers', 7);
    const init = tf.globalVariablesInitializer();
    return { graph, x, y, chosen, init, step, w };
  });
}

interface Answer {
  readonly names: string[];
  readonly devices: string[];
  readonly graph: unknown[];
  readonly meta: MetaAnswer;
  readonly scoped: MetaAnswer;
  readonly made: { readonly meta: string; readonly values: [number[][], number, number] };
}
interface MetaAnswer {
  readonly variables: Record<string, unknown>;
  readonly trainable: string[];
  readonly slices: Record<string, unknown>;
  readonly inputs: string[];
  readonly words: string[];
  readonly numbers: number[];
  readonly values: unknown[];
}

const FED = [
  [1, 1],
  [0, 2],
];
const VALUES = [[[13], [14]], 81];
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

let python: Answer;
beforeAll(async () => {
  const { graph, y, chosen, init } = ourModel();
  const meta = base64(metaGraphBytes(exportMetaGraph({ graph })));
  python = await askPython<Answer>(new URL('../../../test/ops-oracle/graphs.py', import.meta.url), {
    names: NAME_SCRIPT,
    devices: DEVICE_STACKS,
    graph: {
      graph: base64(graph.toGraphDefBytes()),
      init: init.name,
      fetches: [y.name, chosen.name],
      feeds: { 'x:0': FED },
    },
    meta: { meta, fetches: [y.name, chosen.name], feeds: { 'x:0': FED } },
    scoped: {
      meta,
      scope: 'copy',
      fetches: [`copy/${y.name}`, `copy/${chosen.name}`],
      feeds: { 'copy/x:0': FED },
    },
  });
});

describe('in Python TensorFlow', () => {
  test('ops and scopes get the same names', () => {
    expect(ourNames(NAME_SCRIPT)).toEqual(python.names);
  });

  test('nested device scopes give the same devices', () => {
    expect(DEVICE_STACKS.map(ourDevice)).toEqual(python.devices);
  });

  test('a Shoal graph with variables, cond and while gives the same values', async () => {
    const { graph, x, y, chosen, init } = ourModel();
    await using session = Session.open({ graph });
    await session.run(init);
    const ours = await session.run([y, chosen], { feeds: [[x, FED]] });
    expect(ours.map((tensor) => tensor.toArray())).toEqual(VALUES);
    expect(python.graph).toEqual(VALUES);
  });

  test('a Shoal MetaGraphDef gives its variables, slices, collections and values', () => {
    expect(python.meta).toEqual({
      variables: { w: [[1], [2]], global_step: 0, 'table/part_0': [[1], [2]], 'table/part_1': [[3], [4]] },
      trainable: ['w', 'table/part_0', 'table/part_1'],
      slices: { 'table/part_0': ['table', [0, 0]], 'table/part_1': ['table', [2, 0]] },
      inputs: ['x:0'],
      words: ['one'],
      numbers: [7],
      values: VALUES,
    });
  });

  test('a Shoal MetaGraphDef can be imported under a scope', () => {
    expect(Object.keys(python.scoped.variables)).toContain('copy/w');
    expect(python.scoped).toMatchObject({ inputs: ['copy/x:0'], values: VALUES });
  });
});

describe('of Python TensorFlow', () => {
  test.each(['', 'copy'])('a MetaGraphDef is imported under %j and gives the same values', async (prefix) => {
    const graph = new Graph();
    const meta = new Uint8Array(Buffer.from(python.made.meta, 'base64'));
    tf.importMetaGraph(meta, { graph, ...(prefix ? { prefix } : {}) });
    const at = (name: string) => (prefix ? `${prefix}/${name}` : name);
    const variables = graph.getCollection<Variable>('variables');
    expect(variables.map(({ name }) => name).sort()).toEqual(
      ['global_step', 'layer/b', 'layer/w'].map(at).sort(),
    );
    expect(graph.getCollection<Variable>('trainable_variables').map(({ name }) => name)).toEqual([
      at('layer/w'),
    ]);
    expect(variables.find(({ name }) => name === at('layer/b'))?.trainable).toBe(false);
    expect(graph.getCollection<Output>('outputs').map(({ name }) => name)).toEqual([at('y:0')]);
    expect(graph.getCollection('words')).toEqual(['one']);
    expect(graph.getCollection('numbers')).toEqual([7n]);

    await using session = Session.open({ graph });
    await session.run(tf.globalVariablesInitializer(graph));
    await session.run(graph.getCollection<Output>('train_op') as never);
    const step = variables.find(({ name }) => name === at('global_step')) as Variable;
    const values = await session.run([at('y:0'), at('chosen:0'), step.read()], {
      feeds: { [at('x:0')]: FED },
    });
    const [y, chosen, steps] = python.made.values;
    expect(values.map((tensor) => tensor.toArray())).toEqual([y, chosen, BigInt(steps)]);
  });

  test('an imported graph can be extended', async () => {
    const graph = new Graph();
    tf.importMetaGraph(new Uint8Array(Buffer.from(python.made.meta, 'base64')), { graph });
    const twice = graph.asDefault(() => graph.output('y:0').mul(2));
    await using session = Session.open({ graph });
    await session.run(tf.globalVariablesInitializer(graph));
    const value = await session.run(twice, { feeds: { x: FED } });
    expect(value.toArray()).toEqual(python.made.values[0].map((row) => row.map((n) => 2 * n)));
  });
});
