/** Gradient cases of cond, while, calls and the tensor lists of loops. */
import { traceFunction } from '../../../graph/function.js';
import type { Output } from '../../../graph/operation.js';
import { callFunction, cond, condOne, whileLoop } from '../../../ops/control-flow.js';
import * as raw from '../../../ops/generated/index.js';
import { add, greater, less, mul, sum } from '../../../ops/math.js';
import { Tensor } from '../../../tensor/tensor.js';
import { Variable } from '../../../variables/variable.js';
import { f, type GradientCase, type InputSpec, ints, type Program } from '../case.js';

const OTHER_LOOPS =
  'TensorFlow differentiates only loops laid out as its own; the test has the same in Python';
const flag = (value: boolean): InputSpec => ({ dtype: 'bool', shape: [], values: [value ? 1 : 0] });
const one = (inputs: readonly Output[], at: number): Output => inputs[at] as Output;

const conds: readonly GradientCase[] = [true, false].flatMap((holds): GradientCase[] => [
  {
    op: 'StatelessIf',
    name: `${holds}: one branch uses less`,
    inputs: [flag(holds), f([2, 3]), f([3])],
    build: (inputs) => {
      const [x, y] = [one(inputs, 1), one(inputs, 2)];
      return cond(
        one(inputs, 0),
        () => [mul(x, y), raw.sin(x)],
        () => [raw.square(x), x],
      );
    },
  },
  {
    op: 'StatelessIf',
    name: `${holds}: one result unused, integers among them`,
    inputs: [flag(holds), f([2]), ints([3, 4])],
    build: (inputs) => {
      const [x, n] = [one(inputs, 1), one(inputs, 2)];
      return [
        cond(
          one(inputs, 0),
          () => [raw.neg(n), mul(x, x), raw.exp(x)],
          () => [n, raw.cast(n, { dstT: 'float64' }), mul(x, raw.cast(n, { dstT: 'float64' }))],
        )[2] as Output,
      ];
    },
  },
  {
    op: 'StatelessIf',
    name: `${holds}: within a cond`,
    inputs: [flag(holds), f([2]), f([2])],
    build: (inputs) => {
      const [pred, x, y] = [one(inputs, 0), one(inputs, 1), one(inputs, 2)];
      return [
        condOne(
          pred,
          () =>
            condOne(
              greater(sum(x), 0),
              () => mul(x, y),
              () => raw.exp(y),
            ),
          () =>
            mul(
              condOne(
                raw.logicalNot(pred),
                () => raw.sin(x),
                () => y,
              ),
              y,
            ),
        ),
      ];
    },
  },
  {
    op: 'StatelessIf',
    name: `${holds}: twice`,
    order: 2,
    inputs: [flag(holds), f([2]), f([2])],
    build: (inputs) => {
      const [x, y] = [one(inputs, 1), one(inputs, 2)];
      return [
        condOne(
          one(inputs, 0),
          () => mul(raw.square(x), y),
          () => raw.exp(mul(x, y)),
        ),
      ];
    },
  },
  {
    op: 'If',
    name: `${holds}: variables read and looked up within`,
    inputs: [flag(holds), f([3, 2]), f([2])],
    build: (inputs): Program => {
      const table = Variable.create({ initialValue: one(inputs, 1), name: 'table' });
      const scale = Variable.create({ initialValue: one(inputs, 2), name: 'scale' });
      const rows = (...picks: number[]): Output => table.gather(Tensor.of(Int32Array.from(picks)));
      const result = condOne(
        one(inputs, 0),
        () => mul(rows(0, 2, 0), scale),
        () => raw.square(rows(1, 1, 2)),
      );
      return { outputs: [result], xs: [table, scale], init: [table.initializer, scale.initializer] };
    },
  },
]);

const count = Tensor.of(0, { dtype: 'int32' });
const int = (value: number): Tensor => Tensor.of(value, { dtype: 'int32' });

const loops: readonly GradientCase[] = [
  ...[0, 1, 3].map(
    (rounds): GradientCase => ({
      op: 'StatelessWhile',
      name: `${rounds} rounds`,
      inputs: [f([2, 2], [0.5, 1]), f([2, 2], [0.5, 1])],
      build: (inputs) =>
        whileLoop(
          (i) => less(i as Output, int(rounds)),
          (i, x) => [add(i as Output, int(1)), raw.sin(mul(x as Output, one(inputs, 1)))],
          [count, one(inputs, 0)],
        ).slice(1),
      noOracle: OTHER_LOOPS,
    }),
  ),
  {
    op: 'StatelessWhile',
    name: 'several variables, one passed through',
    inputs: [f([2], [0.5, 1]), f([2], [0.5, 1]), f([2], [0.5, 1])],
    build: (inputs) =>
      whileLoop(
        (i) => less(i as Output, int(3)),
        (i, x, y, z) => [
          add(i as Output, int(1)),
          mul(y as Output, z as Output),
          add(x as Output, mul(y as Output, raw.cast(i as Output, { dstT: 'float64' }))),
          z as Output,
        ],
        [count, one(inputs, 0), one(inputs, 1), one(inputs, 2)],
      ).slice(1),
    noOracle: OTHER_LOOPS,
  },
  {
    op: 'StatelessWhile',
    name: 'a number of iterations that depends on the values',
    inputs: [f([], [1, 1.1]), f([], [1.2, 1.3])],
    build: (inputs) =>
      whileLoop(
        (x) => less(x as Output, 5),
        (x) => mul(x as Output, one(inputs, 1)),
        [one(inputs, 0)],
        { maximumIterations: 4 },
      ),
    noOracle: OTHER_LOOPS,
  },
  {
    op: 'StatelessWhile',
    name: 'a variable that grows',
    inputs: [f([1, 2])],
    build: (inputs) =>
      whileLoop(
        (i) => less(i as Output, int(2)),
        (i, x) => [add(i as Output, int(1)), raw.concatV2([x as Output, raw.square(x as Output)], int(0))],
        [count, one(inputs, 0)],
        { shapeInvariants: [[], [null, 2]] },
      ).slice(1),
    noOracle: OTHER_LOOPS,
    noUnknown: 'the invariant is of a known rank',
  },
  {
    op: 'StatelessWhile',
    name: 'a nested cond and a nested loop',
    inputs: [f([2], [0.5, 1]), f([2], [0.5, 1])],
    build: (inputs) =>
      whileLoop(
        (i) => less(i as Output, int(3)),
        (i, x) => {
          const y = condOne(
            raw.equal(i as Output, int(1)),
            () => mul(x as Output, one(inputs, 1)),
            () => raw.sin(x as Output),
          );
          const [, z] = whileLoop(
            (j) => less(j as Output, i as Output),
            (j, v) => [add(j as Output, int(1)), mul(v as Output, one(inputs, 1))],
            [count, y],
          );
          return [add(i as Output, int(1)), z as Output];
        },
        [count, one(inputs, 0)],
      ).slice(1),
    noOracle: OTHER_LOOPS,
  },
  ...[true, false].map(
    (holds): GradientCase => ({
      op: 'StatelessWhile',
      name: `${holds}: within a cond`,
      inputs: [flag(holds), f([2], [0.5, 1])],
      build: (inputs) => [
        condOne(
          one(inputs, 0),
          () =>
            whileLoop(
              (i) => less(i as Output, int(2)),
              (i, x) => [add(i as Output, int(1)), raw.square(x as Output)],
              [count, one(inputs, 1)],
            )[1] as Output,
          () => raw.exp(one(inputs, 1)),
        ),
      ],
      noOracle: OTHER_LOOPS,
    }),
  ),
  {
    op: 'StatelessWhile',
    name: 'twice',
    order: 2,
    inputs: [f([2], [0.5, 1]), f([2], [0.5, 1])],
    build: (inputs) =>
      whileLoop(
        (i) => less(i as Output, int(3)),
        (i, x) => [add(i as Output, int(1)), raw.sin(mul(x as Output, one(inputs, 1)))],
        [count, one(inputs, 0)],
      ).slice(1),
    noOracle: OTHER_LOOPS,
  },
  {
    op: 'While',
    name: 'variables read and looked up within',
    inputs: [f([4, 2], [0.5, 1]), f([2], [0.5, 1]), f([2], [0.5, 1])],
    build: (inputs): Program => {
      const table = Variable.create({ initialValue: one(inputs, 0), name: 'table' });
      const scale = Variable.create({ initialValue: one(inputs, 1), name: 'scale' });
      const outputs = whileLoop(
        (i) => less(i as Output, int(3)),
        (i, x) => [add(i as Output, int(1)), mul(add(x as Output, table.gather(i as Output)), scale)],
        [count, one(inputs, 2)],
      ).slice(1);
      return {
        outputs,
        xs: [table, scale, one(inputs, 2)],
        init: [table.initializer, scale.initializer],
      };
    },
    noOracle: OTHER_LOOPS,
  },
];

const calls: readonly GradientCase[] = [
  {
    op: 'PartitionedCall',
    inputs: [f([2]), f([2])],
    build: (inputs) => {
      const fn = traceFunction(
        [
          { dtype: 'float64', shape: null },
          { dtype: 'float64', shape: null },
        ],
        (x, y) => [mul(x as Output, raw.exp(y as Output)), mul(x as Output, one(inputs, 1))],
        { name: 'product' },
      );
      return callFunction(fn, [one(inputs, 0), one(inputs, 0)]);
    },
  },
  {
    op: 'StatefulPartitionedCall',
    inputs: [f([2]), f([2])],
    build: (inputs): Program => {
      const scale = Variable.create({ initialValue: one(inputs, 0), name: 'scale' });
      const fn = traceFunction([{ dtype: 'float64', shape: null }], (x) => mul(x as Output, scale), {
        name: 'scaled',
      });
      const outputs = callFunction(fn, [one(inputs, 1)]);
      return { outputs, xs: [scale, one(inputs, 1)], init: [scale.initializer] };
    },
    noOracle: 'TensorFlow fails on a variable that a call reads',
  },
];

const doubles = { elementDtype: 'float64' } as const;
const pair = Tensor.of(Int32Array.of(2));

const lists: readonly GradientCase[] = [
  ...['TensorListPushBack', 'TensorListStack'].map(
    (op): GradientCase => ({
      op,
      inputs: [f([2]), f([2])],
      build: (inputs) => {
        const empty = raw.emptyTensorList(pair, int(-1), doubles);
        const list = raw.tensorListPushBack(raw.tensorListPushBack(empty, one(inputs, 0)), one(inputs, 1));
        return [raw.tensorListStack(list, pair, doubles)];
      },
    }),
  ),
  ...['TensorListFromTensor', 'TensorListPopBack'].map(
    (op): GradientCase => ({
      op,
      inputs: [f([3, 2])],
      build: (inputs) => {
        const list = raw.tensorListFromTensor(one(inputs, 0), pair);
        const { outputHandle, tensor } = raw.tensorListPopBack(list, pair, doubles);
        const { outputHandle: rest, tensor: before } = raw.tensorListPopBack(outputHandle, pair, doubles);
        return [mul(tensor, before), raw.tensorListStack(rest, pair, doubles)];
      },
    }),
  ),
  ...['TensorListGetItem', 'TensorListSetItem'].map(
    (op): GradientCase => ({
      op,
      inputs: [f([3, 2]), f([2])],
      build: (inputs) => {
        const list = raw.tensorListFromTensor(one(inputs, 0), pair);
        const set = raw.tensorListSetItem(list, int(1), one(inputs, 1));
        const get = (at: number): Output => raw.tensorListGetItem(set, int(at), pair, doubles);
        return [mul(get(0), get(1)), get(1)];
      },
    }),
  ),
];

export const controlFlowCases: readonly GradientCase[] = [...conds, ...loops, ...calls, ...lists];
