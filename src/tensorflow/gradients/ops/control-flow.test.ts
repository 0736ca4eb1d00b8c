/** Gradient checks for cond, while and calls; loops are also compared with the same loops in Python. */

import { beforeAll, describe, expect, test } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import { asOutput } from '../../ops/build.js';
import { condOne, whileLoop } from '../../ops/control-flow.js';
import { constant, placeholder } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { add, less, mul, sum } from '../../ops/math.js';
import { Session } from '../../session/session.js';
import { seededRandom } from '../../tensor/seeded-random.js';
import { Tensor } from '../../tensor/tensor.js';
import { Variable } from '../../variables/variable.js';
import { gradients } from '../gradients.js';
import { IndexedSlices, toDense } from '../indexed-slices.js';
import { type InputSpec, inputValue, type ProgramCase } from '../testing/case.js';
import { controlFlowCases } from '../testing/cases/control-flow.js';
import { checkGradients } from '../testing/check.js';

checkGradients(controlFlowCases);

const int = (value: number): Tensor => Tensor.of(value, { dtype: 'int32' });

describe('a loop has the same gradients as in Python', () => {
  const names = [
    '0 rounds',
    '1 rounds',
    '3 rounds',
    'several variables, one passed through',
    'a number of iterations that depends on the values',
    'a variable that grows',
    'a nested cond and a nested loop',
    'twice',
  ];
  const loops = names.map((name) => controlFlowCases.find((one) => one.name === name) as ProgramCase);
  const inputs = loops.map((one, i) =>
    (one.inputs as readonly InputSpec[]).map((spec) => inputValue(spec, seededRandom(i + 1))),
  );
  let theirs: number[][][] = [];

  beforeAll(async () => {
    const questions = names.map((name, i) => ({ name, inputs: inputs[i]?.map((value) => value.toArray()) }));
    theirs = await askPython<number[][][]>(new URL('../testing/loops.py', import.meta.url), questions);
  });

  for (const [i, name] of names.entries()) {
    test(name, () => {
      const own = ownGradients(loops[i] as ProgramCase, inputs[i] as Tensor[]);
      own.forEach((value, x) => {
        const given = [value].flat(9) as number[];
        const wanted = [theirs[i]?.[x]].flat(9) as number[];
        expect(given.length).toBe(wanted.length);
        for (const [at, element] of given.entries()) expect(element).toBeCloseTo(wanted[at] as number, 10);
      });
    });
  }
});

function ownGradients(one: ProgramCase, values: readonly Tensor[]): unknown[] {
  return withGraph((session) => {
    const xs = values.map((value) => asOutput(value));
    const ys = one.build(xs) as readonly Output[];
    let found = gradients(ys, xs);
    if (one.order === 2) {
      const firsts = found.filter((gradient) => gradient !== null).map(toDense);
      found = gradients(firsts, xs);
    }
    const dense = found.map((gradient, i) =>
      gradient ? raw.identity(toDense(gradient)) : raw.zerosLike(xs[i] as Output),
    );
    return session()
      .runSync(dense)
      .map((value) => value.toArray());
  });
}

function withGraph<T>(body: (session: () => Session) => T): T {
  const graph = new Graph();
  let session: Session | undefined;
  try {
    return graph.asDefault(() =>
      body(() => {
        session ??= Session.open({ graph });
        return session;
      }),
    );
  } finally {
    session?.dispose();
    graph.dispose();
  }
}

describe('the gradient of a lookup in a body is sparse', () => {
  test('in a cond', () =>
    withGraph((session) => {
      const table = Variable.create({ initialValue: constant(1, { shape: [5, 2] }), name: 'table' });
      const y = condOne(
        placeholder({ dtype: 'bool', shape: [], name: 'pred' }),
        () => sum(table.gather(int(3))),
        () => constant(2),
      );
      const [gradient] = gradients(y, [table]);
      expect(gradient).toBeInstanceOf(IndexedSlices);
      const { values, indices } = gradient as IndexedSlices;
      session().runSync([], { targets: [table.initializer] });
      const run = (pred: boolean) =>
        session()
          .runSync([values, indices], { feeds: { 'pred:0': Tensor.of(pred) } })
          .map((value) => value.toArray());
      expect(run(true)).toEqual([[[1, 1]], [3n]]);
      expect(run(false)).toEqual([[], []]);
    }));

  test('in a loop, even with no iterations', () =>
    withGraph((session) => {
      const table = Variable.create({ initialValue: constant(1, { shape: [5, 2] }), name: 'table' });
      const rounds = placeholder({ dtype: 'int32', shape: [], name: 'rounds' });
      const [, y] = whileLoop(
        (i) => less(i as Output, rounds),
        (i, x) => [add(i as Output, int(1)), add(x as Output, sum(table.gather(i as Output)))],
        [int(0), constant(0)],
      );
      const [gradient] = gradients(y as Output, [table]);
      expect(gradient).toBeInstanceOf(IndexedSlices);
      const { values, indices } = gradient as IndexedSlices;
      session().runSync([], { targets: [table.initializer] });
      const run = (count: number) =>
        session()
          .runSync([values, indices], { feeds: { 'rounds:0': int(count) } })
          .map((value) => value.toArray());
      expect(run(2)).toEqual([
        [
          [1, 1],
          [1, 1],
        ],
        [1n, 0n],
      ]);
      expect(run(0)).toEqual([[], []]);
    }));
});

describe('a non-deterministic body has no gradient', () => {
  test('the error names a random op in a loop', () =>
    withGraph(() => {
      const x = constant(1);
      const [, y] = whileLoop(
        (i) => less(i as Output, int(2)),
        (i, v) => [
          add(i as Output, int(1)),
          mul(v as Output, raw.randomUniform(Tensor.of(new Int32Array(0)), { dtype: 'float32' })),
        ],
        [int(0), x],
      );
      expect(() => gradients(y as Output, [x])).toThrow(/RandomUniform/);
    }));

  test('the error names an assignment in a nested branch', () =>
    withGraph(() => {
      const x = constant(1);
      const state = Variable.create({ initialValue: constant(0), name: 'state' });
      const yes = constant(true);
      const y = condOne(
        yes,
        () =>
          condOne(
            yes,
            () => {
              raw.assignVariableOp(state.handle, x);
              return mul(x, 2);
            },
            () => x,
          ),
        () => x,
      );
      expect(() => gradients(y, [x])).toThrow(/AssignVariableOp/);
    }));
});
