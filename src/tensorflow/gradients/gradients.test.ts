/** The reverse walk: sums, stopped gradients, errors. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import { traceFunction } from '../graph/function.js';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { cast, constant, gather, placeholder, raw, sum, zeros } from '../ops/index.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import {
  fixedSizePartitioner,
  globalVariablesInitializer,
  newVariable,
  partitionedVariable,
} from '../variables/index.js';
import { type GradientOptions, gradients } from './gradients.js';
import { type Gradient, IndexedSlices, toDense } from './indexed-slices.js';

let graph: Graph;
beforeEach(() => {
  graph = new Graph();
});
afterEach(() => graph.dispose());

/** Builds gradients in the test's graph and returns their values; null if there is none. */
async function valuesOf(build: () => readonly (Gradient | null)[]): Promise<unknown[]> {
  const dense = graph.asDefault(() => build().map((found) => found && raw.identity(toDense(found))));
  const session = Session.open({ graph });
  try {
    const initializer = graph.asDefault(() => globalVariablesInitializer());
    await session.run(initializer);
    if (dense.every((output) => output === null)) return dense;
    const values = await session.run(dense as Output[]);
    return values.map((value: Tensor | null) => value?.toArray() ?? null);
  } finally {
    await session.close();
  }
}

const number = (value: number): Output => constant(value, { dtype: 'float64' });
const vector = (...values: number[]): Output => constant(values, { dtype: 'float64' });
const build = <T>(body: () => T): T => graph.asDefault(body);

describe('sums', () => {
  test('several losses add up', async () => {
    const found = await valuesOf(() => {
      const x = number(3);
      return gradients([x.mul(2), x.square()], [x]);
    });
    expect(found).toEqual([8]);
  });

  test('a loss passed twice counts twice', async () => {
    const found = await valuesOf(() => {
      const x = number(3);
      const y = x.mul(2);
      return gradients([y, y], [x]);
    });
    expect(found).toEqual([4]);
  });

  test('a tensor that feeds several ops, or one op twice, gets the sum', async () => {
    const found = await valuesOf(() => {
      const x = number(3);
      const y = x.mul(x);
      return gradients(y.add(y.mul(x)), [x, y]);
    });
    expect(found).toEqual([6 + 27, 4]);
  });

  test('an x that is also a y gets ones plus the gradients of the other ys', async () => {
    const found = await valuesOf(() => {
      const x = number(3);
      const y = x.mul(2);
      return [...gradients(x, [x]), ...gradients([y, y.square()], [y, x])];
    });
    expect(found).toEqual([1, 1 + 12, 26]);
  });

  test('the outputs of one op have separate gradients', async () => {
    const found = await valuesOf(() => {
      const x = vector(1, 2, 3);
      const parts = raw.unpack(x, { num: 3 }) as [Output, Output, Output];
      return gradients(parts[0].mul(5).add(parts[2].square()), [x, parts[0], parts[1], parts[2]]);
    });
    expect(found).toEqual([[5, 0, 6], 5, null, 6]);
  });

  test('dense and sparse gradients of one variable add up to a dense sum', async () => {
    const found = await valuesOf(() => {
      const table = newVariable(vector(1, 2, 3), { name: 'table' });
      const rows = gather(table, constant([2, 0, 2], { dtype: 'int32' }));
      const result = gradients(sum(rows).add(sum(table.toOutput().mul(10))), [table]);
      expect(result[0]).not.toBeInstanceOf(IndexedSlices);
      return result;
    });
    expect(found).toEqual([[11, 10, 12]]);
  });

  test('a sum of sparse gradients stays sparse, whatever their index types', async () => {
    const found = await valuesOf(() => {
      const table = newVariable(vector(1, 2, 3), { name: 'table' });
      const narrow = gather(table, constant([2], { dtype: 'int32' }));
      const wide = gather(table, constant([0n, 2n], { dtype: 'int64' }));
      const result = gradients([narrow, wide], [table]);
      expect(result[0]).toBeInstanceOf(IndexedSlices);
      return result;
    });
    expect(found).toEqual([[1, 0, 2]]);
  });
});

describe('gradYs', () => {
  test('replace the default of ones; null means ones', async () => {
    const found = await valuesOf(() => {
      const x = vector(1, 2);
      return gradients([x.mul(2), x.mul(3)], [x], { gradYs: [vector(10, 20), null] });
    });
    expect(found).toEqual([[23, 43]]);
  });

  test('may be IndexedSlices', async () => {
    const found = await valuesOf(() => {
      const x = vector(1, 2, 3);
      const slices = new IndexedSlices(vector(5), constant([1], { dtype: 'int32' }), raw.shape(x));
      return gradients(raw.identity(x), [x], { gradYs: [slices] });
    });
    expect(found).toEqual([[0, 5, 0]]);
  });

  test.each<[string, GradientOptions['gradYs'], RegExp]>([
    ['too many entries', [1, 1], /2 entries for 1 ys/],
    ['a mismatched shape', [[1, 2, 3]], /has shape \[3\]; expected \[2\]/],
  ])('rejects %s', (_what, gradYs, message) => {
    expect(() =>
      build(() => {
        const x = constant([1, 2]);
        return gradients(x.mul(2), [x], { gradYs });
      }),
    ).toThrow(message);
  });

  test('a gradient of another dtype is rejected', () => {
    expect(() =>
      build(() => {
        const x = vector(1, 2);
        return gradients(x.mul(2), [x], { gradYs: [constant([1, 2])] });
      }),
    ).toThrow(/Expected dtype float64/);
  });
});

describe('stopped gradients', () => {
  test('stopGradients give partial derivatives', async () => {
    const found = await valuesOf(() => {
      const a = number(1);
      const b = a.mul(2);
      return [...gradients(a.add(b), [a, b]), ...gradients(a.add(b), [a, b], { stopGradients: [a, b] })];
    });
    expect(found).toEqual([3, 1, 1, 1]);
  });

  test('a stop applies to one output of an op, not to the others', async () => {
    const found = await valuesOf(() => {
      const x = vector(1, 2);
      const [first, second] = raw.unpack(x, { num: 2 }) as [Output, Output];
      return gradients(first.add(second), [x], { stopGradients: [first] });
    });
    expect(found).toEqual([[0, 1]]);
  });

  test('a stopped loss has a gradient only with respect to itself', async () => {
    const found = await valuesOf(() => {
      const x = number(1);
      const y = x.mul(2);
      return gradients(y, [x, y], { stopGradients: [y] });
    });
    expect(found).toEqual([null, 1]);
  });

  test('an x that no loss depends on gets null, or zeros if requested', async () => {
    const found = await valuesOf(() => {
      const [x, other] = [number(1), vector(1, 2)];
      const unused = newVariable(vector(1, 2, 3), { name: 'unused' });
      return [
        ...gradients(x.mul(2), [other, unused]),
        ...gradients(x.mul(2), [other, unused], { unconnected: 'zero' }),
      ];
    });
    expect(found).toEqual([null, null, [0, 0], [0, 0, 0]]);
  });

  test('no gradient flows through integers or step functions', async () => {
    const found = await valuesOf(() => {
      const x = number(1.5);
      const whole = cast(x, 'int32');
      return [...gradients(cast(whole, 'float64'), [x, whole]), ...gradients(raw.floor(x), [x])];
    });
    expect(found).toEqual([null, null, null]);
  });

  test('only the needed ops are built', () => {
    build(() => {
      const [x, w] = [zeros([2, 3]), zeros([3, 4])];
      gradients(raw.matMul(x, w), [w]);
    });
    expect(graph.operations().filter(({ type }) => type === 'MatMul')).toHaveLength(2);
  });
});

describe('higher order and deep graphs', () => {
  test('gradients of gradients', async () => {
    const found = await valuesOf(() => {
      const x = number(2);
      const first = gradients(x.pow(5), [x]) as Output[];
      const second = gradients(first, [x]) as Output[];
      return [...first, ...second, ...gradients(second, [x])];
    });
    expect(found).toEqual([80, 160, 240]);
  });

  test('a chain of ten thousand ops takes linear time', async () => {
    const seconds = (length: number): number => {
      const long = new Graph();
      try {
        return long.asDefault(() => {
          const x = constant(1);
          let y: Output = x;
          for (let i = 0; i < length; i++) y = raw.neg(y);
          const start = process.cpuUsage();
          const [found] = gradients(y, [x]);
          expect(found).not.toBeNull();
          const { user, system } = process.cpuUsage(start);
          return (user + system) / 1e6;
        });
      } finally {
        long.dispose();
      }
    };
    seconds(100);
    const [short, long] = [seconds(1_250), seconds(10_000)];
    // Eight times as long: a quadratic walk would need sixty-four times the time.
    expect(long / short).toBeLessThan(32);
  });
});

describe('functions', () => {
  test('gradients in a function, for its arguments and captured tensors and variables', async () => {
    const found = await valuesOf(() => {
      const scale = number(10);
      const unused = number(1);
      const weight = newVariable(7, { name: 'weight', dtype: 'float32' });
      const fn = traceFunction(
        [{ dtype: 'float64', shape: [] }],
        (x) => {
          const w = cast(weight.toOutput(), 'float64');
          const loss = (x as Output).square().mul(scale).mul(w);
          const [byX, byScale, byUnused, byWeight] = gradients(loss, [x as Output, scale, unused, weight]);
          expect(byUnused).toBeNull();
          return [byX, byScale, cast(toDense(byWeight as Gradient), 'float64')] as Output[];
        },
        { name: 'differentiated' },
      );
      const call = graph.op(
        'PartitionedCall',
        [[number(3), ...fn.captures]],
        { f: fn, Tout: ['float64', 'float64', 'float64'] },
        {},
      );
      return call.outputs;
    });
    expect(found).toEqual([2 * 3 * 10 * 7, 9 * 7, 90]);
  });
});

describe('errors', () => {
  test('an op without gradient is named, with its path to the loss', () => {
    const attempt = () =>
      build(() => {
        const x = placeholder({ shape: [2, 2, 3], name: 'picture' });
        const hue = raw.adjustHue(x, 0.1, { name: 'hue' });
        return gradients(sum(hue.mul(2)), [x]);
      });
    expect(attempt).toThrow(
      expect.objectContaining({
        code: 'SHOAL_NO_GRADIENT',
        op: 'hue',
        message: expect.stringContaining('hue (AdjustHue) → Mul (Mul) → Sum (Sum)'),
      }),
    );
  });

  test('a long path to the loss is shortened', () => {
    expect(() =>
      build(() => {
        const x = placeholder({ shape: [2, 2, 3] });
        let y: Output = raw.adjustHue(x, 0.1);
        for (let i = 0; i < 100; i++) y = raw.neg(y);
        return gradients(y, [x]);
      }),
    ).toThrow(/AdjustHue\) → Neg \(Neg\) → .* → … 90 more … → Neg_99 \(Neg\)/);
  });

  test('an op without gradient is ignored if no x feeds it', async () => {
    const found = await valuesOf(() => {
      const x = number(3);
      const hue = raw.adjustHue(zeros([1, 1, 3]), 0.1);
      return gradients([x.mul(2), sum(hue)], [x]);
    });
    expect(found).toEqual([2]);
  });

  test('an integer loss is rejected', () => {
    expect(() =>
      build(() => {
        const x = constant([1, 2], { dtype: 'int32' });
        return gradients(x.mul(2), [x]);
      }),
    ).toThrow(/its dtype is int32/);
  });

  test('a tensor of another graph is rejected', () => {
    const other = new Graph();
    try {
      const stranger = other.asDefault(() => constant(1));
      expect(() => build(() => gradients(constant(1).mul(2), [stranger]))).toThrow(
        /does not belong to the graph/,
      );
    } finally {
      other.dispose();
    }
  });

  test('the error for a partitioned variable refers to its parts', () => {
    expect(() =>
      build(() => {
        const table = partitionedVariable('table', { shape: [4], partitioner: fixedSizePartitioner(2) });
        return gradients(constant(1), [table as never]);
      }),
    ).toThrow(described(/its parts/));
  });
});

test('gradient ops are colocated with the forward ops if requested', () => {
  build(() => {
    const x = constant(1);
    const y = graph.device('/job:ps/task:1', () => raw.square(x));
    gradients(y, [x], { colocateGradientsWithOps: true });
  });
  const placed = graph.operations().filter(({ name }) => name.startsWith('gradients/Square_grad/'));
  expect(placed.length).toBeGreaterThan(0);
  for (const op of placed) expect(op.device).toBe('/job:ps/task:1');
});

test('gradient ops are named after their forward ops', () => {
  build(() => {
    const x = constant(1);
    graph.nameScope('model', () => gradients(raw.square(x, { name: 'loss' }), [x], { name: 'back' }));
  });
  expect(graph.operations().some(({ name }) => name.startsWith('model/back/loss_grad/'))).toBe(true);
});

test('gradYs may be Tensor literals', async () => {
  const found = await valuesOf(() => {
    const x = constant([1, 2]);
    return gradients(x.mul(2), [x], { gradYs: [Tensor.of([1, 3])] });
  });
  expect(found).toEqual([[2, 6]]);
});
