/**
 * A model whose state shows whether a snapshot is consistent. Each of several concurrent training loops has its own rows
 * in two sparse tables on two ps, trained by FTRL with a gradient of one, and two counters, one on each ps. After n
 * steps of a loop both counters are n, the accumulators of its rows are n + 1, and weights and linear slots are the
 * result of n updates.
 */

import * as tf from '../../src/app/tf/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { getOrCreateGlobalStep } from '../../src/tensorflow/variables/global-step.js';

export const LOOPS = 4;
export const ROWS_PER_LOOP = 8;
export const COLUMNS = 4;
/** Most rows are never updated: they make a snapshot take longer. */
export const ROWS = 20_000;
export const TABLES = ['table0', 'table1'] as const;

export const rowsOf = (loop: number): readonly number[] =>
  Array.from({ length: ROWS_PER_LOOP }, (_, i) => loop + i * LOOPS);

export function buildSnapshotModel(deviceOf: (ps: number) => string) {
  const graph = new Graph();
  return graph.asDefault(() => {
    const on = <T>(ps: number, build: () => T): T => graph.device(deviceOf(ps), build);
    const globalStep = on(0, () => getOrCreateGlobalStep(graph));
    const tables = TABLES.map((name, ps) =>
      on(ps, () => tf.variable(name, { shape: [ROWS, COLUMNS], initializer: tf.zerosInitializer() })),
    );
    const counters = Array.from({ length: LOOPS }, (_, loop) =>
      [0, 1].map((ps) =>
        on(ps, () =>
          tf.variable(`count${loop}_${ps}`, {
            shape: [],
            dtype: 'int64',
            initializer: tf.zerosInitializer(),
            trainable: false,
          }),
        ),
      ),
    );
    const optimizer = tf.train.ftrl(0.1, { initialAccumulatorValue: 1, l1RegularizationStrength: 0.01 });
    const loops = counters.map((pair, loop) => {
      const ids = tf.constant([...rowsOf(loop)], { dtype: 'int64' });
      const sums = tables.map((table) => tf.sum(table.gather(ids)));
      const trained = optimizer.minimize(sums[0]!.add(sums[1]!), { globalStep });
      return tf.group([trained, ...pair.map((counter) => counter.assignAdd(1n))]);
    });
    return { graph, globalStep, loops };
  });
}
