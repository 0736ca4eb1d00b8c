/** A small model with a dense and a sparse part, and batches for it: the same here and in oracle.py. */

import type { DeviceScope } from '../../graph/device.js';
import { Graph } from '../../graph/graph.js';
import { placeholder } from '../../ops/creation.js';
import type { Feeds } from '../../session/feeds.js';
import type { Runner } from '../../session/runner.js';
import { Session } from '../../session/session.js';
import type { Tensor } from '../../tensor/tensor.js';
import { getOrCreateGlobalStep } from '../../variables/global-step.js';
import { globalVariablesInitializer } from '../../variables/initialize.js';
import { globalVariables, variable } from '../../variables/variable-scope.js';
import type { Optimizer } from '../optimizer.js';

type Matrix = number[][];

export interface Batch {
  readonly x: Matrix;
  readonly y: Matrix;
  readonly u: Matrix;
  readonly z: Matrix;
  /** Rows of the table; some repeat. */
  readonly ids: number[];
}

export interface TrainingData {
  readonly w: Matrix;
  readonly b: number;
  readonly table: Matrix;
  readonly batches: readonly Batch[];
}

/** Reproducible numbers from a small generator. */
export function trainingData(steps: number, seed = 1): TrainingData {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const matrix = (rows: number, columns: number): Matrix =>
    Array.from({ length: rows }, () => Array.from({ length: columns }, () => Math.fround(next() * 2 - 1)));
  return {
    w: matrix(5, 3),
    b: Math.fround(next()),
    table: matrix(10, 3),
    batches: Array.from({ length: steps }, () => ({
      x: matrix(5, 3),
      y: matrix(5, 3),
      u: matrix(8, 3),
      z: matrix(8, 3),
      ids: Array.from({ length: 8 }, () => Math.floor(next() * 6)),
    })),
  };
}

export interface TrainOptions {
  /** The type of the variables; default: float32. */
  readonly dtype?: 'float32' | 'float64' | undefined;
  /** The devices of the model; default: none. */
  readonly device?: DeviceScope | null;
  /** Opens the session; default: in this process. */
  readonly open?: (graph: Graph) => Runner & AsyncDisposable;
}

/** The values of all variables after each step. */
export async function train(
  data: TrainingData,
  optimizer: Optimizer,
  { dtype = 'float32', device = null, open = (graph) => Session.open({ graph }) }: TrainOptions = {},
): Promise<Record<string, unknown>[]> {
  const graph = new Graph();
  const model = graph.asDefault(() =>
    graph.device(device, () => {
      const w = variable('w', { initializer: data.w, dtype });
      const b = variable('b', { initializer: data.b, dtype });
      const table = variable('table', { initializer: data.table, dtype });
      const [x, y, u, z] = [
        placeholder({ dtype, shape: [5, 3] }),
        placeholder({ dtype, shape: [5, 3] }),
        placeholder({ dtype, shape: [8, 3] }),
        placeholder({ dtype, shape: [8, 3] }),
      ];
      const ids = placeholder({ dtype: 'int64', shape: [8] });
      const dense = w.mul(x).add(b).sub(y).square().sum();
      const sparse = table.gather(ids).mul(u).sub(z).square().sum();
      const trainOp = optimizer.minimize(dense.add(sparse), { globalStep: getOrCreateGlobalStep() });
      const init = globalVariablesInitializer();
      const shown = Object.fromEntries(globalVariables().map((one) => [one.name, one.read()]));
      return { x, y, u, z, ids, trainOp, init, shown };
    }),
  );
  const { x, y, u, z, ids, trainOp, init, shown } = model;
  await using session = open(graph);
  await session.run(init);
  const history: Record<string, unknown>[] = [];
  for (const batch of data.batches) {
    const feeds: Feeds = [
      [x, batch.x],
      [y, batch.y],
      [u, batch.u],
      [z, batch.z],
      [ids, batch.ids],
    ];
    await session.run(trainOp, { feeds });
    const values = (await session.run(shown)) as Record<string, Tensor>;
    history.push(Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.toArray()])));
  }
  return history;
}
