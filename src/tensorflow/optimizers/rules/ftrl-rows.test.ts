/** Row updates of narrow tables: bit-identical to TensorFlow's kernel, and no update is lost under concurrency. */
import { describe, expect, it } from 'vitest';
import { IndexedSlices } from '../../gradients/index.js';
import { Graph } from '../../graph/graph.js';
import { constant, group } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { randomUniform } from '../../ops/random.js';
import { Session } from '../../session/session.js';
import type { DType } from '../../tensor/dtype.js';
import { Tensor } from '../../tensor/tensor.js';
import { constantInitializer, globalVariablesInitializer, variable } from '../../variables/index.js';
import { ftrl } from '../index.js';
import { isNarrow, updateRows } from './ftrl-rows.js';

const ROWS = 40;

function table(prefix: string, dtype: DType) {
  const make = (name: string, value: number) =>
    variable(`${prefix}/${name}`, { shape: [ROWS, 2], dtype, initializer: constantInitializer(value) });
  return { variable: make('w', 0), accum: make('a', 0.1), linear: make('z', 0) };
}

describe('row updates of a narrow table', () => {
  it.each([
    ['float32', 0, 0],
    ['float32', 0.05, 0.1],
    ['float64', 0.05, 0],
  ] as const)("are the kernel's, bit by bit: %s, l1 %d, l2 %d", async (dtype, l1Value, l2Value) => {
    const graph = new Graph();
    const parts = graph.asDefault(() => {
      const [ours, theirs] = [table('ours', dtype), table('theirs', dtype)];
      const g = randomUniform([20, 2], -1, 1, { dtype, seed: 1 });
      const indices = constant(BigInt64Array.from({ length: 20 }, (_, i) => BigInt(ROWS - 1 - 2 * i)));
      const scalar = (value: number) => constant(Tensor.of(value, { dtype }));
      const [rate, l1, l2] = [scalar(0.1), scalar(l1Value), scalar(l2Value)];
      const scalars = { rate, l1, l2, hasL1: l1Value !== 0, hasL2: l2Value !== 0 };
      const own = updateRows(ours, new IndexedSlices(g, indices), scalars);
      const { variable: w, accum: a, linear: z } = theirs;
      const kernel = raw.resourceSparseApplyFtrl(
        w.handle,
        a.handle,
        z.handle,
        g,
        indices,
        rate,
        l1,
        l2,
        scalar(-0.5),
      );
      return {
        step: group([own, kernel]),
        ours: Object.values(ours).map((one) => one.read()),
        theirs: Object.values(theirs).map((one) => one.read()),
        init: globalVariablesInitializer(),
      };
    });
    await using session = Session.open({ graph });
    await session.run(parts.init);
    for (let i = 0; i < 20; i++) {
      await session.run(parts.step);
      const found = await session.run({ ours: parts.ours, theirs: parts.theirs });
      for (const [k, own] of found.ours.entries()) expect(own.data).toEqual(found.theirs[k]?.data);
    }
  });

  it('keep every update when many run concurrently', async () => {
    const graph = new Graph();
    const { step, accum, init } = graph.asDefault(() => {
      const weights = variable('weights', { shape: [ROWS, 2], initializer: constantInitializer(0) });
      const optimizer = ftrl(0.1, { initialAccumulatorValue: 1 });
      const ones = new IndexedSlices(
        constant(Tensor.of(new Float32Array(2 * ROWS).fill(1), { shape: [ROWS, 2] })),
        constant(BigInt64Array.from({ length: ROWS }, (_, i) => BigInt(i))),
      );
      const step = optimizer.applyGradients([[ones, weights]]);
      const accum = optimizer.getSlot(weights, 'accum')?.read() ?? weights.read();
      return { step, accum, init: globalVariablesInitializer() };
    });
    await using session = Session.open({ graph });
    await session.run(init);
    const lanes = Array.from({ length: 4 }, async () => {
      for (let i = 0; i < 50; i++) await session.run(step);
    });
    await Promise.all(lanes);
    expect(new Set((await session.run(accum)).data as Float32Array)).toEqual(new Set([201]));
  });

  it('apply to floating-point tables of two to fifteen columns', () => {
    const graph = new Graph();
    const narrow = graph.asDefault(() =>
      [[9], [9, 1], [9, 2], [9, 3, 5], [9, 4, 4]].map((shape, i) =>
        isNarrow(variable(`t${i}`, { shape, initializer: constantInitializer(0) })),
      ),
    );
    expect(narrow).toEqual([false, false, true, true, false]);
  });
});
