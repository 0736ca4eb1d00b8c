/** Gradients of lookups in a large table: no gradient tensor is as large as the table. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunMetadata } from '../../base/proto/generated/config_pb.js';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { constant, zeros } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { sum } from '../ops/math.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import { fixedSizePartitioner, PartitionedVariable } from '../variables/partitioned.js';
import { Variable } from '../variables/variable.js';
import { gradients } from './gradients.js';
import { IndexedSlices } from './indexed-slices.js';

const ROWS = 2_000_000;
const graph = new Graph();
let session: Session;
let table: Variable;

const ints = (...values: number[]): Tensor => Tensor.of(Int32Array.from(values));
const longs = (...values: bigint[]): Tensor => Tensor.of(BigInt64Array.from(values));

beforeAll(() => {
  table = graph.asDefault(() => Variable.create({ initialValue: () => zeros([ROWS, 2]), name: 'table' }));
  session = Session.open({ graph });
  session.runSync([], { targets: [table.initializer] });
});
afterAll(async () => {
  await session.close();
  graph.dispose();
});

/** The size in elements of the largest output of any gradient op in the run. */
function largestOutput(metadata: RunMetadata): number {
  const sizes = (metadata.stepStats?.devStats ?? []).flatMap(({ nodeStats }) =>
    nodeStats
      .filter(({ nodeName }) => nodeName.includes('gradients'))
      .flatMap(({ output }) =>
        output.map(({ tensorDescription }) =>
          (tensorDescription?.shape?.dim ?? []).reduce((size, dim) => size * Number(dim.size), 1),
        ),
      ),
  );
  return Math.max(0, ...sizes);
}

async function checkStaysSmall(build: () => Output, xs: readonly Variable[]): Promise<void> {
  const found = graph.asDefault(() => gradients(sum(build()), xs));
  const slices = found.map((gradient) => {
    expect(gradient).toBeInstanceOf(IndexedSlices);
    return gradient as IndexedSlices;
  });
  let metadata: RunMetadata | undefined;
  await session.run(
    slices.map(({ values, indices }) => [values, indices]),
    { onMetadata: (made) => (metadata = made) },
  );
  const largest = largestOutput(metadata as RunMetadata);
  expect(largest).toBeGreaterThan(0);
  expect(largest).toBeLessThan(1000);
}

const ids = (): Tensor => ints(5, 1_999_999, 5, 77);
const segments = (): Tensor => ints(0, 0, 2, 2);

test('a gather of rows', () => checkStaysSmall(() => table.gather(ids()), [table]));

test('a gather from the value read', () =>
  checkStaysSmall(() => raw.gatherV2(table, ids(), Tensor.of(0, { dtype: 'int32' })), [table]));

for (const combiner of ['sum', 'mean', 'sqrtn'] as const) {
  const combine = {
    sum: raw.sparseSegmentSum,
    mean: raw.sparseSegmentMean,
    sqrtn: raw.sparseSegmentSqrtN,
  }[combiner];
  test(`unique ids, looked up and combined by ${combiner}`, () =>
    checkStaysSmall(() => {
      const { y, idx } = raw.unique(ids());
      return combine(table.gather(y), idx, segments());
    }, [table]));

  test(`rows combined by ${combiner} from the value read`, () =>
    checkStaysSmall(() => combine(table, ids(), segments()), [table]));
}

test('a sparse matrix times the table', () =>
  checkStaysSmall(
    () =>
      raw.sparseTensorDenseMatMul(
        Tensor.of(BigInt64Array.of(0n, 5n, 0n, 1_999_999n, 1n, 5n), { shape: [3, 2] }),
        Tensor.of([1, 2, 3]),
        longs(2n, BigInt(ROWS)),
        table,
      ),
    [table],
  ));

test('each part of a partitioned table gets its own rows', () =>
  graph.asDefault(() => {
    const parted = PartitionedVariable.create({
      name: 'parted',
      shape: [7, 2],
      dtype: 'float32',
      partitioner: fixedSizePartitioner(3),
      make: (shape) => constant(1, { shape }),
      trainable: true,
    });
    for (const { initializer } of parted.parts) session.runSync([], { targets: [initializer] });
    const picked = raw.gatherV2(parted, ints(6, 0, 3, 0), Tensor.of(0, { dtype: 'int32' }));
    const found = gradients(sum(picked), parted.parts) as IndexedSlices[];
    const indices = session.runSync(found.map((slices) => slices.indices)).map((value) => value.toArray());
    expect(indices).toEqual([[0, 0], [0], [1]]);
  }));
