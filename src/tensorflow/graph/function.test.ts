import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { tf } from '../../index.js';
import * as raw from '../ops/generated/index.js';
import { Session } from '../session/session.js';
import type { DType } from '../tensor/dtype.js';
import { callArguments, type GraphFunction, traceFunction } from './function.js';
import { Graph } from './graph.js';
import type { Output } from './operation.js';

let graph: Graph;
let session: Session;
beforeEach(() => {
  graph = new Graph();
  session = Session.open({ graph });
});
afterEach(() => session.close());

const inGraph = <T>(body: () => T): T => graph.asDefault(body);
const float: DType = 'float32';

function call(fn: GraphFunction, ...args: Output[]): Output[] {
  const tout = fn.outputs.map(({ dtype }) => dtype);
  return inGraph(() => raw.partitionedCall(callArguments(fn, args), { tout, f: fn }));
}

const values = async (outputs: readonly Output[]) =>
  (await session.run([...outputs])).map((tensor) => tensor.toArray());

describe('a function', () => {
  test('takes arguments and returns results', async () => {
    const fn = inGraph(() =>
      traceFunction([{ dtype: float }, { dtype: float, shape: [] }], (x, y) => [x.add(y), x.mul(y)], {
        name: 'both',
      }),
    );
    expect(fn).toMatchObject({
      captures: [],
      stateful: false,
      inputs: [{ dtype: float }, { dtype: float, shape: [] }],
    });
    expect(fn.outputs.map(({ dtype }) => dtype)).toEqual([float, float]);
    const [x, y] = inGraph(() => [tf.constant([1, 2]), tf.constant(3)]) as [Output, Output];
    expect(await values(call(fn, x, y))).toEqual([
      [4, 5],
      [3, 6],
    ]);
  });

  test('captures outputs of the enclosing graph', async () => {
    const outside = inGraph(() => tf.constant(10));
    const fn = inGraph(() =>
      traceFunction([{ dtype: float }], (x) => x.add(outside).mul(outside), { name: 'f' }),
    );
    expect(fn.captures).toEqual([outside]);
    expect(
      await values(
        call(
          fn,
          inGraph(() => tf.constant(1)),
        ),
      ),
    ).toEqual([110]);
  });

  test('may return an argument, a capture, and one tensor twice', async () => {
    const outside = inGraph(() => tf.constant(10));
    const fn = inGraph(() => traceFunction([{ dtype: float }], (x) => [x, outside, x], { name: 'f' }));
    expect(
      await values(
        call(
          fn,
          inGraph(() => tf.constant(1)),
        ),
      ),
    ).toEqual([1, 10, 1]);
  });

  test('may capture within scopes of names, devices and control dependencies', async () => {
    const outside = inGraph(() => tf.constant(10));
    const fn = inGraph(() =>
      traceFunction(
        [],
        () => {
          const wait = tf.noOp();
          return tf.nameScope('deep', () =>
            tf.device('/cpu:0', () => tf.controlDependencies([wait], () => outside.add(1))),
          );
        },
        { name: 'f' },
      ),
    );
    const captured = fn.bodyInputs[0] as Output;
    expect(captured.op).toMatchObject({ name: 'captured/0', device: '', controlInputs: [] });
    expect(await values(call(fn))).toEqual([11]);
  });

  test('may call another function and pass captures through it', async () => {
    const outside = inGraph(() => tf.constant(10));
    const fn = inGraph(() =>
      traceFunction(
        [{ dtype: float }],
        (x) => {
          const inner = traceFunction([{ dtype: float }], (y) => y.mul(outside).add(x), { name: 'inner' });
          return raw.partitionedCall(callArguments(inner, [x.add(1)]), { tout: [float], f: inner });
        },
        { name: 'outer' },
      ),
    );
    expect(fn.captures).toEqual([outside]);
    expect(
      await values(
        call(
          fn,
          inGraph(() => tf.constant(2)),
        ),
      ),
    ).toEqual([32]);
  });

  test('is stateful if it contains a stateful op', () => {
    const random = inGraph(() => traceFunction([], () => tf.randomUniform([2]), { name: 'f' }));
    const pure = inGraph(() => traceFunction([], () => tf.zeros([2]), { name: 'g' }));
    expect([random.stateful, pure.stateful]).toEqual([true, false]);
  });

  test('called with too few arguments reports the expected number', () => {
    const fn = inGraph(() => traceFunction([{ dtype: float }], (x) => x, { name: 'f' }));
    expect(() => callArguments(fn, [])).toThrow(/takes 1 arguments; got 0/);
  });

  test('rejects outputs of a graph that does not enclose it', () => {
    const foreign = new Graph().asDefault(() => tf.constant(1));
    expect(() => inGraph(() => traceFunction([], () => foreign.add(1), { name: 'f' }))).toThrow(
      'belongs to another graph',
    );
  });

  test('is part of the GraphDef', async () => {
    const fn = inGraph(() => traceFunction([{ dtype: float }], (x) => x.add(1), { name: 'increment' }));
    const [result] = call(
      fn,
      inGraph(() => tf.constant(1)),
    );
    const copy = new Graph();
    copy.importGraphDef(graph.toGraphDef());
    await using other = Session.open({ graph: copy });
    expect((await other.run(result?.name as string)).item()).toBe(2);
    expect(copy.opDef(fn.functionName).inputArg).toHaveLength(1);
  });
});
