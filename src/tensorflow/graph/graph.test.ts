import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { tf } from '../../index.js';
import * as raw from '../ops/generated/index.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import { currentGraph, Graph, resetDefaultGraph } from './graph.js';
import { activeScope } from './scope.js';

let graph: Graph;
beforeEach(() => {
  graph = new Graph();
});

const invalidArgument = (message: string | RegExp) =>
  expect.objectContaining({
    code: 'SHOAL_INVALID_ARGUMENT',
    message: typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message),
  });
const noOp = (name?: string) => graph.op('NoOp', [], {}, { name });
const constant = (value: number | number[] | number[][], name?: string) =>
  graph.op('Const', [], { value: Tensor.of(value), dtype: 'float32' }, { name }).output();

describe('an op', () => {
  test('has a name, a type, inputs, outputs, attributes, and a definition', () => {
    const [a, b] = [constant([[1, 2]], 'a'), constant([[3], [4]], 'b')];
    const op = graph.op('MatMul', [a, b], { transpose_a: false }, { name: 'product' });
    expect(op).toMatchObject({
      name: 'product',
      type: 'MatMul',
      device: '',
      inputs: [a, b],
      controlInputs: [],
    });
    expect(op.outputs).toHaveLength(1);
    expect(op.output()).toMatchObject({ name: 'product:0', dtype: 'float32', shape: [1, 1], rank: 2 });
    expect(op.attr('T')).toBe('float32');
    expect(op.attr('transpose_b')).toBe(false);
    expect(op.attr('no_such')).toBeUndefined();
    expect(op.nodeDef()).toMatchObject({ name: 'product', op: 'MatMul', input: ['a', 'b'] });
  });

  test('is found by name, and a tensor by name and index', () => {
    const output = constant(1, 'a');
    expect(graph.operation('a')).toBe(output.op);
    expect(graph.output('a:0')).toBe(output);
    expect(graph.output('a')).toBe(output);
    expect(graph.hasOperation('b')).toBe(false);
    expect(() => graph.operation('b')).toThrowError(invalidArgument("no op named 'b'"));
    expect(() => graph.output('a:1')).toThrowError(invalidArgument('no output 1'));
  });

  test('is listed in order of creation', () => {
    for (const name of ['c', 'a', 'b']) noOp(name);
    expect(graph.operations().map(({ name }) => name)).toEqual(['c', 'a', 'b']);
  });

  test('of an unknown type is an error with a hint on op names', () => {
    expect(() => graph.op('Matmul')).toThrowError(invalidArgument("has no op 'Matmul'"));
  });

  test('with too few inputs reports the expected inputs', () => {
    expect(() => graph.op('MatMul', [constant(1)])).toThrowError(
      invalidArgument('takes 2 inputs (a, b); got 1'),
    );
  });

  test('with an unknown attribute reports the valid ones', () => {
    expect(() => graph.op('Const', [], { values: 1 })).toThrowError(
      invalidArgument("Op Const has no attribute 'values'; valid attributes: value, dtype"),
    );
  });

  test('with incompatible shapes reports both and the op', () => {
    const build = () => graph.op('MatMul', [constant([[1, 2, 3]]), constant([[1, 2]])], {}, { name: 'bad' });
    expect(build).toThrowError(
      expect.objectContaining({
        code: 'SHOAL_TF_INVALID_ARGUMENT',
        op: 'bad',
        message: expect.stringMatching(/\[1,3\].*\[1,2\]/s),
      }),
    );
  });

  test('that fails leaves the graph usable', () => {
    expect(() => graph.op('MatMul', [constant(1), constant(2)])).toThrow();
    expect(noOp('fine').name).toBe('fine');
    expect(graph.toGraphDef().node.map(({ name }) => name)).not.toContain('MatMul');
  });

  test('with an input of another graph is an error', () => {
    const other = new Graph();
    const foreign = other.op('Const', [], { value: Tensor.of(1), dtype: 'float32' }).output();
    expect(() => graph.op('Neg', [foreign])).toThrowError(invalidArgument('belongs to another graph'));
    expect(() => graph.op('NoOp', [], {}, { controlInputs: [foreign.op] })).toThrowError(
      invalidArgument('belongs to another graph'),
    );
  });

  test.each(['', '-x', 'a b', 'é', '_x'])('cannot be named %j', (name) => {
    expect(() => noOp(name)).toThrowError(invalidArgument('not a valid op name'));
  });

  test('whose name ends with a slash gets exactly that name, ignoring scopes', () => {
    graph.nameScope('scope', () => {
      expect(noOp('exact/').name).toBe('exact');
    });
    expect(noOp('exact').name).toBe('exact_1');
  });
});

describe('attributes', () => {
  const attr = (name: string, value: never) => {
    const types: Record<string, [string, Record<string, unknown>]> = {
      shape: ['Placeholder', { dtype: 'float32' }],
      shared_name: ['VarHandleOp', { dtype: 'float32', shape: [] }],
      dtypes: ['MapClear', {}],
      capacity: ['MapClear', { dtypes: ['float32'] }],
      shapes: ['FIFOQueueV2', { component_types: ['float32', 'int32'] }],
      dense_shapes: ['ParseExampleDataset', {}],
      boundaries: ['Bucketize', {}],
      alpha: ['LeakyRelu', {}],
    };
    const [type, rest] = types[name] as [string, Record<string, never>];
    const inputs = ['Bucketize', 'LeakyRelu'].includes(type) ? [constant([1])] : [];
    return graph.op(type, inputs, { ...rest, [name]: value }).attr(name);
  };

  test.each([
    ['shape', [2, null]],
    ['shape', []],
    ['shape', null],
    ['shared_name', 'é'],
    ['dtypes', ['float32', 'string']],
    ['capacity', 2 ** 40],
    ['capacity', 2n ** 62n],
    ['shapes', [[1, null], null]],
    ['boundaries', [0.5, 2]],
    ['alpha', 0.25],
  ])('%s = %o round-trips', (name, value) => {
    expect(attr(name, value as never)).toEqual(value);
  });

  test.each([
    ['shape', [1.5], 'a shape'],
    ['shape', [-2], 'a shape'],
    ['shape', 3, 'a shape'],
    ['capacity', 1.5, 'a 64-bit integer'],
    ['capacity', 2n ** 64n, 'a 64-bit integer'],
    ['capacity', '7', 'a 64-bit integer'],
    ['dtypes', 'float32', 'a list of type'],
    ['dtypes', [1], 'a data type'],
    ['shared_name', 1, 'a string'],
    ['alpha', true, 'a number'],
  ])('%s = %o is an error with the expected type', (name, value, wanted) => {
    expect(() => attr(name, value as never)).toThrowError(invalidArgument(`must be ${wanted}`));
  });

  test('that begin with an underscore are allowed on any op', () => {
    const op = graph.op('NoOp', [], {
      _note: 'text',
      _count: 3,
      _ratio: 0.5,
      _flag: true,
      _class: ['loc:@x'],
    });
    const read = ['_note', '_count', '_ratio', '_flag', '_class'].map((name) => op.attr(name));
    expect(read).toEqual(['text', 3, 0.5, true, ['loc:@x']]);
  });

  test('may be a list of functions', async () => {
    const branches = graph.asDefault(() =>
      [10, 20, 30].map((value, i) => tf.traceFunction([], () => tf.constant(value), { name: `branch_${i}` })),
    );
    const index = graph.asDefault(() => tf.placeholder({ dtype: 'int32', shape: [] }));
    const [chosen] = graph.asDefault(() =>
      raw.caseOp(index, [], { tout: ['float32'], branches, outputShapes: [[]] }),
    );
    await using session = Session.open({ graph });
    expect((await session.run(chosen, { feeds: [[index, 1]] }))?.item()).toBe(20);
    expect(chosen?.op.attr('branches')).toEqual(branches.map(({ functionName }) => ({ functionName })));
  });
});

describe('shapes', () => {
  test('may be partially or fully unknown, and can be set', () => {
    const part = graph.op('Placeholder', [], { dtype: 'float32', shape: [null, 3] }).output();
    const whole = graph.op('Placeholder', [], { dtype: 'float32', shape: null }).output();
    expect([part.shape, part.rank, whole.shape, whole.rank]).toEqual([[null, 3], 2, null, null]);
    expect(part.setShape([2, null]).shape).toEqual([2, 3]);
    expect(() => part.setShape([7, 3])).toThrowError(
      expect.objectContaining({ code: 'SHOAL_TF_INVALID_ARGUMENT' }),
    );
  });
});

describe('name scopes', () => {
  test('nest, are numbered, and end', () => {
    const names = graph.nameScope('a', () => [noOp('x').name, graph.nameScope('b', () => noOp('x').name)]);
    expect([...names, graph.nameScope('a', () => noOp('x').name), noOp('x').name]).toEqual([
      'a/x',
      'a/b/x',
      'a_1/x',
      'x',
    ]);
  });

  test('end when their body throws', () => {
    expect(() =>
      graph.nameScope('a', () => {
        throw new Error('no');
      }),
    ).toThrow('no');
    expect(noOp('x').name).toBe('x');
  });

  test('last across awaits, each in its own chain', async () => {
    const inScope = (name: string) =>
      graph.nameScope(name, async () => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        return noOp('x').name;
      });
    expect(await Promise.all([inScope('a'), inScope('b')])).toEqual(['a/x', 'b/x']);
    expect(activeScope()).toBeUndefined();
  });

  test('last across awaits while others end, throw or begin', async () => {
    const inside = (name: string, ms: number, fails = false) =>
      graph.nameScope(name, async () => {
        await sleep(ms);
        if (fails) throw new Error('wanted');
        return noOp('x').name;
      });
    const [short, long, failed] = await Promise.allSettled([
      inside('short', 1),
      inside('long', 20),
      inside('failed', 5, true),
    ]);
    expect(failed.status).toBe('rejected');
    expect([short, long]).toMatchObject([{ value: 'short/x' }, { value: 'long/x' }]);
    expect(activeScope()).toBeUndefined();
    expect(await inside('again', 1)).toBe('again/x');
  });

  test('reject invalid names', () => {
    expect(() => graph.nameScope('a b', () => 0)).toThrowError(invalidArgument('not a valid op name'));
  });
});

describe('device scopes', () => {
  test('fill in parts that inner scopes omit', () => {
    const device = graph.device('/job:ps/task:1', () => graph.device('/task:2/cpu:0', () => noOp().device));
    expect(device).toBe('/job:ps/task:2/device:CPU:0');
  });

  test('may be functions of the op being created', () => {
    const seen: unknown[] = [];
    const place = (op: { type: string; name: string; device: string }) => {
      seen.push([op.type, op.name, op.device]);
      return op.type === 'NoOp' ? '/job:ps' : undefined;
    };
    graph.device(place, () =>
      graph.device('/task:3', () => {
        expect(noOp('n').device).toBe('/job:ps/task:3');
        expect(constant(1, 'c').op.device).toBe('/task:3');
      }),
    );
    expect(seen).toEqual([
      ['NoOp', 'n', '/task:3'],
      ['Const', 'c', '/task:3'],
    ]);
  });

  test('are cleared by null', () => {
    expect(graph.device('/job:ps', () => graph.device(null, () => noOp().device))).toBe('');
  });

  test('yield to the device of the op itself', () => {
    const device = graph.device(
      '/job:ps/task:1',
      () => graph.op('NoOp', [], {}, { device: '/task:5' }).device,
    );
    expect(device).toBe('/job:ps/task:5');
  });

  test('with an invalid device name are an error', () => {
    expect(() => graph.device('/jobb:ps', () => noOp())).toThrowError(invalidArgument("'jobb:ps'"));
  });
});

describe('control dependencies', () => {
  test('accumulate, and are cleared by null', () => {
    const [a, b] = [noOp('a'), noOp('b')];
    graph.controlDependencies([a], () => {
      expect(graph.controlDependencies([b], () => noOp()).controlInputs).toEqual([a, b]);
      expect(graph.controlDependencies(null, () => noOp()).controlInputs).toEqual([]);
    });
  });

  test('order reads and writes of a variable', async () => {
    const model = graph.asDefault(() => {
      const v = tf.variable('v', { initializer: 1 });
      const before = v.read();
      const doubled = tf.controlDependencies([before], () => v.assign(v.read().mul(10)));
      const after = tf.controlDependencies([doubled], () => v.read());
      return { init: tf.globalVariablesInitializer(), fetches: { before, after } };
    });
    await using session = Session.open({ graph });
    await session.run(model.init);
    for (const expected of [1, 10, 100]) {
      const { before, after } = await session.run(model.fetches);
      expect([before.item(), after.item()]).toEqual([expected, expected * 10]);
    }
  });

  test('give a variable a separate read', () => {
    graph.asDefault(() => {
      const v = tf.variable('v', { shape: [] });
      expect(v.toOutput()).toBe(v.toOutput());
      tf.controlDependencies([tf.noOp()], () => expect(v.toOutput()).not.toBe(v.toOutput()));
    });
  });
});

describe('colocation', () => {
  test('uses the device of the other op, ignoring device scopes, and records it', () => {
    const anchor = graph.device('/job:ps/task:1', () => noOp('anchor'));
    const op = graph.device('/job:worker', () => graph.colocateWith(anchor, () => noOp()));
    expect(op.device).toBe('/job:ps/task:1');
    expect(op.attr('_class')).toEqual(['loc:@anchor']);
  });
});

describe('collections', () => {
  test('keep items in order and return copies', () => {
    graph.addToCollection('things', 1);
    graph.addToCollection('things', 'two');
    const things = graph.getCollection('things');
    things.push('three');
    expect(graph.getCollection('things')).toEqual([1, 'two']);
    expect(graph.getCollection('none')).toEqual([]);
    expect(graph.collectionNames).toEqual(['things']);
  });
});

describe('several graphs', () => {
  test('are separate: ops go to the default graph, or to that of their inputs', () => {
    const other = new Graph();
    const a = other.asDefault(() => tf.constant(1));
    expect(a.graph).toBe(other);
    expect(a.add(1).graph).toBe(other);
    expect(graph.asDefault(() => tf.constant(1)).graph).toBe(graph);
    expect(() => graph.asDefault(() => a.add(1))).toThrowError(invalidArgument('belongs to another graph'));
  });

  test('include a process-wide default until it is reset', () => {
    resetDefaultGraph();
    const first = currentGraph();
    expect(tf.constant(1).graph).toBe(first);
    expect(currentGraph()).toBe(first);
    resetDefaultGraph();
    expect(currentGraph()).not.toBe(first);
    resetDefaultGraph();
  });

  test('run concurrently', async () => {
    const graphs = [1, 2, 3].map((value) => {
      const own = new Graph();
      return {
        value,
        session: Session.open({ graph: own }),
        output: own.asDefault(() => tf.constant(value).mul(2)),
      };
    });
    const results = await Promise.all(graphs.map(({ session, output }) => session.run(output)));
    expect(results.map((tensor) => tensor.item())).toEqual([2, 4, 6]);
    await Promise.all(graphs.map(({ session }) => session.close()));
  });

  test('keep functions of the same name separate', () => {
    const trace = (own: Graph, dtype: 'float32' | 'int32') =>
      own.asDefault(() =>
        tf.traceFunction([{ dtype }, ...(dtype === 'int32' ? [{ dtype }] : [])], (x) => x, { name: 'f' }),
      );
    const other = new Graph();
    const [mine, theirs] = [trace(graph, 'float32'), trace(other, 'int32')];
    expect(graph.opDef(mine.functionName).inputArg).toHaveLength(1);
    expect(other.opDef(theirs.functionName).inputArg).toHaveLength(2);
    expect(() => graph.opDef(theirs.functionName)).toThrowError(invalidArgument('has no op'));
  });
});

describe('a GraphDef', () => {
  const source = () => {
    const from = new Graph();
    from.asDefault(() => {
      const x = tf.placeholder({ shape: [], name: 'x' });
      tf.add(x, tf.constant(1, { name: 'one' }), { name: 'y' });
    });
    return from.toGraphDef();
  };

  test('round trips', () => {
    graph.importGraphDef(source());
    expect(graph.toGraphDef().node).toEqual(source().node);
  });

  test('is imported with a prefix, replaced inputs and returned outputs', async () => {
    const two = constant(2, 'two');
    const { outputs, operations } = graph.importGraphDef(source(), {
      prefix: 'copy',
      inputMap: { 'x:0': two },
      returnOutputs: ['y:0'],
      returnOperations: ['one'],
    });
    expect(outputs.map(({ name }) => name)).toEqual(['copy/y:0']);
    expect(operations.map(({ name }) => name)).toEqual(['copy/one']);
    await using session = Session.open({ graph });
    expect((await session.run(outputs[0]!)).item()).toBe(3);
  });

  test('reserves its names', () => {
    graph.importGraphDef(source());
    expect(noOp('y').name).toBe('y_1');
    expect(() => graph.importGraphDef(source())).toThrowError(
      expect.objectContaining({ code: 'SHOAL_TF_INVALID_ARGUMENT' }),
    );
    graph.importGraphDef(source(), { uniquifyNames: true });
    expect(graph.hasOperation('x_1')).toBe(true);
  });

  test('respects control dependencies and the default device', () => {
    const first = noOp('first');
    graph.importGraphDef(source(), { controlDependencies: [first], defaultDevice: '/job:ps' });
    expect(graph.operation('one').controlInputs).toEqual([first]);
    expect(graph.operation('y').device).toBe('/job:ps');
  });

  test('that cannot be parsed is an error', () => {
    expect(() => graph.importGraphDef(Uint8Array.from([1, 2, 3]))).toThrowError(
      expect.objectContaining({ code: 'SHOAL_TF_INVALID_ARGUMENT' }),
    );
  });
});
