/** Lookups over one and several partitions: rows and gradients match Python TensorFlow's; gradients stay sparse. */
import { beforeAll, describe, expect, it } from 'vitest';
import { gradients, IndexedSlices } from '../gradients/index.js';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { cast, constant, mul, range, raw, reshape, sum } from '../ops/index.js';
import { ftrl } from '../optimizers/index.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import {
  fixedSizePartitioner,
  globalVariablesInitializer,
  partitionedVariable,
  trainableVariables,
  variable,
  variableScope,
} from '../variables/index.js';
import {
  type EmbeddingTable,
  embeddingLookup,
  embeddingLookupSparse,
  losses,
  SparseTensor,
  safeEmbeddingLookupSparse,
} from './index.js';
import { embedding } from './layers.js';
import { expectClose, filled, numbers } from './testing/compare.js';
import { askOracle } from './testing/oracle.js';

interface SparseValue {
  readonly indices: readonly (readonly number[])[];
  readonly values: readonly number[];
  readonly denseShape: readonly number[];
}

interface Case {
  readonly title: string;
  readonly lookup: 'dense' | 'sparse' | 'safe';
  readonly parts: readonly unknown[];
  readonly ids: unknown;
  readonly weights?: SparseValue;
  readonly options: Readonly<Record<string, unknown>>;
}

const next = numbers(3, -2, 2);
const table = (sizes: readonly number[], row: readonly number[] = [3]) =>
  sizes.map((size) => filled([size, ...row], next));
const ids = [
  [6, 0, 3],
  [3, 3, 5],
];

const bags: SparseValue = {
  indices: [
    [0, 0],
    [0, 1],
    [0, 3],
    [1, 0],
    [3, 1],
    [3, 2],
  ],
  values: [6, 1, 6, 2, 0, 1],
  denseShape: [4, 4],
};
const weights: SparseValue = { ...bags, values: [0.5, 2, 1.5, 1, 0.25, 3] };
const messy: SparseValue = {
  indices: [
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 2],
    [2, 0],
    [4, 0],
  ],
  values: [6, -1, 2, 2, -5, 0],
  denseShape: [6, 3],
};
const messyWeights: SparseValue = { ...messy, values: [0.5, 2, -1, 1, 1, 0] };
const cube: SparseValue = {
  indices: [
    [0, 0, 0],
    [0, 1, 1],
    [1, 1, 0],
  ],
  values: [4, 0, 2],
  denseShape: [2, 2, 2],
};

const cases: Case[] = [
  { title: 'one part', lookup: 'dense', parts: table([7]), ids, options: {} },
  { title: 'one part, one id', lookup: 'dense', parts: table([7]), ids: 5, options: {} },
  { title: 'one part, no ids', lookup: 'dense', parts: table([7]), ids: [], options: {} },
  { title: 'rows of two axes', lookup: 'dense', parts: table([4, 3], [2, 2]), ids, options: {} },
  {
    title: 'maxNorm',
    lookup: 'dense',
    parts: [
      [
        [3, 4],
        [0, 0],
        [0.1, 0.1],
      ],
    ],
    ids: [0, 1, 2, 0],
    options: { maxNorm: 1 },
  },
  ...(['mod', 'div'] as const).flatMap((partitionStrategy): Case[] => [
    {
      title: `three parts, ${partitionStrategy}`,
      lookup: 'dense',
      parts: table([3, 2, 2]),
      ids,
      options: { partitionStrategy },
    },
    {
      title: `three equal parts, ${partitionStrategy}`,
      lookup: 'dense',
      parts: table([3, 3, 3]),
      ids: [8, 0, 4, 8],
      options: { partitionStrategy },
    },
    {
      title: `three parts, ${partitionStrategy}, maxNorm`,
      lookup: 'dense',
      parts: table([3, 2, 2]),
      ids: [6, 0, 3, 3],
      options: { partitionStrategy, maxNorm: 0.5 },
    },
  ]),
  ...(['sum', 'mean', 'sqrtn'] as const).flatMap((combiner): Case[] => [
    {
      title: `bags, ${combiner}`,
      lookup: 'sparse',
      parts: table([7]),
      ids: bags,
      options: { combiner },
    },
    {
      title: `weighted bags over three parts, ${combiner}`,
      lookup: 'sparse',
      parts: table([3, 2, 2]),
      ids: bags,
      weights,
      options: { combiner, partitionStrategy: 'div' },
    },
    {
      title: `messy bags, ${combiner}`,
      lookup: 'safe',
      parts: table([3, 2, 2]),
      ids: messy,
      options: { combiner },
    },
    {
      title: `messy weighted bags, ${combiner}`,
      lookup: 'safe',
      parts: table([3, 2, 2]),
      ids: messy,
      weights: messyWeights,
      options: { combiner },
    },
  ]),
  {
    title: 'messy bags with a default id',
    lookup: 'safe',
    parts: table([7]),
    ids: messy,
    weights: messyWeights,
    options: { defaultId: 4 },
  },
  { title: 'ids of three axes', lookup: 'safe', parts: table([7]), ids: cube, options: {} },
  {
    title: 'bags with maxNorm',
    lookup: 'sparse',
    parts: table([7]),
    ids: bags,
    weights,
    options: { maxNorm: 0.7, combiner: 'sum' },
  },
];

const int64s = (values: readonly number[]): Tensor => Tensor.of(BigInt64Array.from(values, BigInt));
const sparse = (value: SparseValue, dtype: 'int64' | 'float32'): SparseTensor =>
  new SparseTensor({
    indices: Tensor.of(BigInt64Array.from(value.indices.flat(), BigInt), {
      shape: [value.indices.length, value.denseShape.length],
    }),
    values: dtype === 'int64' ? int64s(value.values) : Tensor.of(Float32Array.from(value.values)),
    denseShape: int64s(value.denseShape),
  });

function lookUp({ lookup, ids: wanted, weights: factors, options }: Case, parts: EmbeddingTable): Output {
  if (lookup === 'dense') {
    const literal =
      Array.isArray(wanted) && wanted.length === 0 ? new BigInt64Array(0) : (wanted as number[]);
    return embeddingLookup(parts, literal, options);
  }
  const call = lookup === 'sparse' ? embeddingLookupSparse : safeEmbeddingLookupSparse;
  const spWeights = factors ? sparse(factors, 'float32') : null;
  return call(parts, sparse(wanted as SparseValue, 'int64'), spWeights, options);
}

/** Σ row · 1, 2, 3, …: every element has a different gradient. */
function numbered(rows: Output): Output {
  const factors = reshape(
    range(1, raw.addV2(raw.size(rows), Tensor.of(1, { dtype: 'int32' }))),
    raw.shape(rows),
  );
  return sum(mul(rows, cast(factors, 'float32')));
}

async function compute(one: Case) {
  using graph = new Graph();
  return await graph.asDefault(async () => {
    const parts = one.parts.map((part, i) => variable(`part_${i}`, { initializer: part as number[][] }));
    const rows = lookUp(one, parts);
    const slices = gradients(numbered(rows), parts);
    expect(slices.every((gradient) => gradient instanceof IndexedSlices)).toBe(true);
    await using session = Session.open({ graph });
    await session.run(globalVariablesInitializer());
    const dense = (slices as IndexedSlices[]).map((gradient) => gradient.toDense());
    const values = await session.run({ rows, dense });
    return { rows: values.rows.toArray(), gradients: values.dense.map((value) => value.toArray()) };
  });
}

describe('embedding lookups as TensorFlow computes them', () => {
  let expected: { rows: unknown; gradients: unknown[] }[];
  beforeAll(async () => {
    expected = await askOracle('embeddings', cases);
  }, 240_000);

  it.each(cases.map((one, i) => [one.title, one, i] as const))('%s', async (_title, one, i) => {
    const actual = await compute(one);
    expectClose(actual.rows, expected[i]?.rows, 2e-6, 1);
    expectClose(actual.gradients, expected[i]?.gradients, 2e-6, 1);
  });
});

describe('a partitioned table', () => {
  it('acts as one table in lookups: ids are rows of the complete table', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const whole = Array.from({ length: 7 }, (_, i) => [i, i * 10]);
      const parts = partitionedVariable('table', {
        initializer: whole,
        shape: [7, 2],
        partitioner: fixedSizePartitioner(3),
      });
      const rows = embeddingLookup(parts, [6, 2, 0, 3, 4]);
      await using session = Session.open({ graph });
      await session.run(globalVariablesInitializer());
      expect((await session.run(rows)).toArray()).toEqual([6, 2, 0, 3, 4].map((i) => whole[i]));
    });
  });

  it('trains like one table: FTRL over three partitions gives the same rows', async () => {
    const train = async (shards: number): Promise<unknown> => {
      using graph = new Graph();
      return await graph.asDefault(async () => {
        const whole = filled([7, 2], numbers(4)) as number[][];
        const weights = partitionedVariable('w', {
          initializer: whole,
          shape: [7, 2],
          partitioner: fixedSizePartitioner(shards),
        });
        const factors = sparse({ ...bags, values: [0.5, 2, 1.5, 1, 0.25, 3] }, 'float32');
        const logits = safeEmbeddingLookupSparse(weights, sparse(bags, 'int64'), factors, {
          combiner: 'sum',
        });
        const loss = losses.sparseSoftmaxCrossEntropy([0, 1, 1, 0], logits);
        const step = ftrl(0.5).minimize(loss);
        await using session = Session.open({ graph });
        await session.run(globalVariablesInitializer());
        const first = (await session.run(loss)).number();
        for (let i = 0; i < 20; i++) await session.run(step);
        expect((await session.run(loss)).number()).toBeLessThan(first / 2);
        return (await session.run(weights)).toArray();
      });
    };
    expectClose(await train(3), await train(1), 1e-5, 1);
  });

  it('gathers each distinct row once', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const parts = partitionedVariable('table', { shape: [6, 2], partitioner: fixedSizePartitioner(2) });
      embeddingLookup(parts, [5, 5, 5, 1, 1]);
      const asked = graph.operations().filter(({ type }) => type === 'ResourceGather');
      await using session = Session.open({ graph });
      const wanted = await session.run(asked.map((op) => op.inputs[1] as Output));
      expect(wanted.map((rows) => rows.toArray())).toEqual([[1], [2]]);
    });
  });

  it('gathers on the device of the partition', () => {
    using graph = new Graph();
    graph.asDefault(() => {
      let at = 0;
      const parts = graph.device(
        ({ type }) => (type === 'VarHandleOp' ? `/job:ps/task:${at++}` : '/job:worker/task:0'),
        () => {
          const made = partitionedVariable('table', { shape: [6, 2], partitioner: fixedSizePartitioner(2) });
          embeddingLookup(made, [5, 1]);
          return made.parts;
        },
      );
      const gathers = graph.operations().filter(({ type }) => type === 'ResourceGather');
      expect(gathers.map(({ device }) => device)).toEqual(parts.map(({ device }) => device));
    });
  });

  it('is created by the embedding layer in a scope with a partitioner', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const rows = variableScope('model', () => embedding([[1, 8]], 10, 4), {
        partitioner: fixedSizePartitioner(2),
      });
      expect(rows.shape).toEqual([1, 2, 4]);
      expect(trainableVariables().map(({ name }) => name)).toEqual([
        'model/embedding/embeddings/part_0',
        'model/embedding/embeddings/part_1',
      ]);
      await using session = Session.open({ graph });
      await session.run(globalVariablesInitializer());
      expect((await session.run(rows)).shape).toEqual([1, 2, 4]);
    });
  });
});

describe('bad input to a lookup', () => {
  it('rejects an unknown combiner and lists the valid ones', () => {
    using graph = new Graph();
    graph.asDefault(() => {
      const parts = variable('t', { shape: [7, 2] });
      expect(() =>
        embeddingLookupSparse(parts, sparse(bags, 'int64'), null, { combiner: 'max' as never }),
      ).toThrow("Unknown combiner 'max'; use one of sum, mean, sqrtn");
    });
  });

  it('rejects ids that are not integers', () => {
    using graph = new Graph();
    graph.asDefault(() => {
      const parts = variable('t', { shape: [7, 2] });
      expect(() => embeddingLookup(parts, constant([1.5]))).toThrow(
        /Ids must be int32 or int64; .* is float32/,
      );
    });
  });

  it('fails the run for an id outside the table, and names the id', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const rows = embeddingLookup(variable('t', { shape: [7, 2] }), [3, 7]);
      await using session = Session.open({ graph });
      await session.run(globalVariablesInitializer());
      await expect(session.run(rows)).rejects.toThrow(/= 7 is not in \[0, 7\)/);
    });
  });
});
