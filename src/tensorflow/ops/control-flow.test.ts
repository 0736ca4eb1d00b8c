import { beforeEach, describe, expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import { tf } from '../../index.js';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import type { Feeds } from '../session/feeds.js';
import { Session } from '../session/session.js';

let graph: Graph;
beforeEach(() => {
  graph = new Graph();
});

async function evaluate(outputs: readonly Output[], feeds: Feeds = []): Promise<unknown[]> {
  await using session = Session.open({ graph });
  const init = tf.globalVariablesInitializer(graph);
  await session.run(init);
  return (await session.run([...outputs], { feeds })).map((tensor) => tensor.toArray());
}

const inGraph = <T>(body: () => T): T => graph.asDefault(body);

describe('cond', () => {
  const build = (body: (flag: Output) => Output[]) => {
    const flag = inGraph(() => tf.placeholder({ dtype: 'bool', shape: [] }));
    return { flag, outputs: inGraph(() => body(flag)) };
  };

  test.each([
    [true, [1, 20]],
    [false, [2, 10]],
  ])('returns the values of the branch for %j', async (value, expected) => {
    const { flag, outputs } = build((pred) => {
      const [a, b] = [tf.constant(10), tf.constant(20)];
      return tf.cond(
        pred,
        () => [tf.constant(1), b],
        () => [tf.constant(2), a],
      );
    });
    expect(await evaluate(outputs, [[flag, value]])).toEqual(expected);
  });

  test('accepts literals, and a single value without a list', async () => {
    const { flag, outputs } = build((pred) => [
      ...tf.cond(
        pred,
        () => [1, 2],
        () => [3, 4],
      ),
      tf.condOne(
        pred,
        () => 5,
        () => 6,
      ),
      tf.condOne(
        pred,
        () => [7, 8],
        () => [9, 10],
      ),
    ]);
    expect(await evaluate(outputs, [[flag, false]])).toEqual([[3, 4], 6, [9, 10]]);
  });

  test('runs one branch only', async () => {
    const { flag, outputs } = build((pred) => {
      const v = tf.variable('v', { initializer: 1 });
      const branch = (value: number) => () => tf.controlDependencies([v.assign(value)], () => v.read());
      const [chosen] = tf.cond(pred, branch(10), branch(20)) as [Output];
      return [chosen, tf.controlDependencies([chosen], () => v.read())];
    });
    expect(await evaluate(outputs, [[flag, true]])).toEqual([10, 10]);
  });

  test('traces each branch once, independent of captures', () => {
    const traced: string[] = [];
    build((pred) => {
      const [a, b] = [tf.constant(1), tf.constant(2)];
      const branch = (name: string, x: Output) => () => {
        traced.push(name);
        return x.add(1);
      };
      return tf.cond(pred, branch('then', a), branch('else', b));
    });
    expect(traced).toEqual(['then', 'else']);
  });

  test.each([
    [[3, 4], 12],
    [[4, 3], 7],
    [[-1, 3], -1],
  ])('nests: %j gives %i', async ([x, y], expected) => {
    const [a, b] = inGraph(() => [tf.placeholder({ shape: [] }), tf.placeholder({ shape: [] })]) as [
      Output,
      Output,
    ];
    const outputs = inGraph(() =>
      tf.cond(
        a.greater(0),
        () =>
          tf.condOne(
            a.less(b),
            () => a.mul(b),
            () => a.add(b),
          ),
        () => a,
      ),
    );
    const feeds: Feeds = [
      [a, x as number],
      [b, y as number],
    ];
    expect(await evaluate(outputs, feeds)).toEqual([expected]);
  });

  test('keeps the common static shape of both branches', () => {
    const { outputs } = build((pred) =>
      tf.cond(
        pred,
        () => [tf.zeros([2, 3]), tf.zeros([2])],
        () => [tf.zeros([4, 3]), tf.zeros([])],
      ),
    );
    expect(outputs.map(({ shape }) => shape)).toEqual([[null, 3], null]);
  });

  test('reports branches with different types', () => {
    expect(() =>
      build((pred) =>
        tf.cond(
          pred,
          () => tf.constant(1),
          () => tf.constant(1n),
        ),
      ),
    ).toThrow(/got \(float32 \[\]\) and \(int64 \[\]\)/);
  });

  test('requires a bool condition', () => {
    const pred = () => tf.constant(1);
    expect(() => inGraph(() => tf.cond(pred(), pred, pred))).toThrow('Expected dtype bool');
  });
});

describe('whileLoop', () => {
  test('repeats while the condition holds', async () => {
    const outputs = inGraph(() =>
      tf.whileLoop(
        (i) => i.less(5),
        (i, product) => [i.add(1), product.mul(i)],
        [1, 1],
      ),
    );
    expect(await evaluate(outputs)).toEqual([5, 24]);
  });

  test('captures in the condition, in the body, and in both', async () => {
    const outputs = inGraph(() => {
      const [limit, step, both] = [tf.constant(10), tf.constant(3), tf.constant(1)] as [
        Output,
        Output,
        Output,
      ];
      return tf.whileLoop(
        (i) => i.add(both).less(limit),
        (i) => [i.add(step).add(both)],
        [0],
      );
    });
    expect(await evaluate(outputs)).toEqual([12]);
  });

  test.each([
    [0, 0],
    [3, 3],
    [100, 7],
  ])('ends after at most %i rounds', async (maximumIterations, expected) => {
    const outputs = inGraph(() =>
      tf.whileLoop(
        (i) => i.less(7),
        (i) => i.add(1),
        [0],
        { maximumIterations },
      ),
    );
    expect(outputs).toHaveLength(1);
    expect(await evaluate(outputs)).toEqual([expected]);
  });

  test('nests, with a cond inside', async () => {
    const outputs = inGraph(() => {
      const two = tf.constant(2);
      return tf.whileLoop(
        (i) => i.less(4),
        (i, total) => {
          const [, row] = tf.whileLoop(
            (j) => j.less(i),
            (j, sum) => [j.add(1), sum.add(i.mul(two))],
            [0, 0],
          ) as [Output, Output];
          const next = tf.condOne(
            i.mod(two).equal(0),
            () => total.add(row),
            () => total.sub(row),
          );
          return [i.add(1), next];
        },
        [0, 0],
      );
    });
    // Rows: 0, 1·2, 2·4, 3·6, with signs + − + −.
    expect(await evaluate(outputs)).toEqual([4, 0 - 2 + 8 - 18]);
  });

  test('deep nests are traced once per level', () => {
    let traced = 0;
    const nest = (depth: number, x: Output): Output =>
      depth === 0
        ? x
        : (tf.whileLoop(
            (i) => i.less(1),
            (i) => {
              traced += 1;
              return [i.add(nest(depth - 1, x))];
            },
            [0],
          )[0] as Output);
    inGraph(() => nest(6, tf.constant(1)));
    expect(traced).toBe(6);
  });

  test('works on variables', async () => {
    const outputs = inGraph(() => {
      const v = tf.variable('v', { initializer: 5 });
      const [last] = tf.whileLoop(
        (i) => i.less(3),
        (i) => tf.controlDependencies([v.assignAdd(1)], () => i.add(1)),
        [0],
      ) as [Output];
      return [tf.controlDependencies([last], () => v.read())];
    });
    expect(await evaluate(outputs)).toEqual([8]);
  });

  test('allows shapes to change with shapeInvariants', async () => {
    const grow = (options: { shapeInvariants?: (number | null)[][] }) =>
      inGraph(() =>
        tf.whileLoop(
          (x) => tf.size(x).less(5),
          (x) => tf.concat([x, x]),
          [[1, 2]],
          options,
        ),
      );
    expect(() => grow({})).toThrow(
      described(/Loop variable 0 has shape \[2\] before an iteration and \[4\] after it.*shapeInvariants/s),
    );
    const outputs = grow({ shapeInvariants: [[null]] });
    expect(outputs[0]?.shape).toEqual([null]);
    expect(await evaluate(outputs)).toEqual([[1, 2, 1, 2, 1, 2, 1, 2]]);
  });

  test('must return the same number and types of variables', () => {
    const loop = (body: (x: Output) => Output[]) => () =>
      inGraph(() => tf.whileLoop((x) => x.less(1), body, [0]));
    expect(loop((x) => [x, x])).toThrow(/loop variables \(float32\); got \(float32, float32\)/);
    expect(loop((x) => [tf.cast(x, 'int32')])).toThrow(/got \(int32\)/);
    expect(() =>
      inGraph(() =>
        tf.whileLoop(
          () => true,
          () => [],
          [],
        ),
      ),
    ).toThrow('at least one loop variable');
  });
});
