/**
 * A model whose state tells whether it is of one instant. Each lane of training, of which several are under way at once,
 * has rows of its own in two sparse tables on two ps, trained by FTRL with a gradient of one, and two counters, one on
 * each ps. After n steps of a lane both counters say n, the accumulators of its rows say n + 1, and weights and linear
 * slots are what n updates make of them.
 */
import { Graph } from '../../src/graph/graph.js';
import * as tf from '../../src/tf.js';
import { getOrCreateGlobalStep } from '../../src/variables/global-step.js';

export const LANES = 4;
export const ROWS_PER_LANE = 8;
export const COLUMNS = 4;
/** Most rows are never touched: they make a snapshot last. */
export const ROWS = 20_000;
export const TABLES = ['table0', 'table1'] as const;

export const rowsOf = (lane: number): readonly number[] =>
  Array.from({ length: ROWS_PER_LANE }, (_, i) => lane + i * LANES);

export function buildTornModel(deviceOf: (ps: number) => string) {
  const graph = new Graph();
  return graph.asDefault(() => {
    const on = <T>(ps: number, build: () => T): T => graph.device(deviceOf(ps), build);
    const globalStep = on(0, () => getOrCreateGlobalStep(graph));
    const tables = TABLES.map((name, ps) =>
      on(ps, () => tf.variable(name, { shape: [ROWS, COLUMNS], initializer: tf.zerosInitializer() })),
    );
    const counters = Array.from({ length: LANES }, (_, lane) =>
      [0, 1].map((ps) =>
        on(ps, () =>
          tf.variable(`count${lane}_${ps}`, {
            shape: [],
            dtype: 'int64',
            initializer: tf.zerosInitializer(),
            trainable: false,
          }),
        ),
      ),
    );
    const optimizer = tf.train.ftrl(0.1, { initialAccumulatorValue: 1, l1RegularizationStrength: 0.01 });
    const lanes = counters.map((pair, lane) => {
      const ids = tf.constant([...rowsOf(lane)], { dtype: 'int64' });
      const sums = tables.map((table) => tf.sum(table.gather(ids)));
      const trained = optimizer.minimize(sums[0]!.add(sums[1]!), { globalStep });
      return tf.group([trained, ...pair.map((counter) => counter.assignAdd(1n))]);
    });
    return { graph, globalStep, lanes };
  });
}
