/** Training on both engines: optimizers, sparse updates, several workers, synchronous or not. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { replicaDeviceSetter } from '../../src/distributed/cluster/spec/device-setter.js';
import { taskId } from '../../src/distributed/cluster/spec/task-id.js';
import { defineJob, Session, tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import type { Output } from '../../src/tensorflow/graph/operation.js';
import type { Optimizer } from '../../src/tensorflow/optimizers/optimizer.js';
import { relativeError } from '../../src/tensorflow/optimizers/testing/compare.js';
import { train, trainingData } from '../../src/tensorflow/optimizers/testing/training.js';
import { trainOnCluster, WORKERS } from '../train/losses.js';
import { ENGINES, EngineCluster, plain } from './engine-cluster.js';

const STEPS = 10;

/** The unit tests compare the values of one process with TensorFlow's. */
const OPTIMIZERS: Readonly<Record<string, () => Optimizer>> = {
  'gradient descent': () => tf.train.sgd(0.05),
  momentum: () => tf.train.momentum(0.02, 0.9),
  Adagrad: () => tf.train.adagrad(0.1),
  Adam: () => tf.train.adam(0.02),
  FTRL: () => tf.train.ftrl(0.1, { l1RegularizationStrength: 0.1, l2RegularizationStrength: 0.2 }),
  'FTRL and Adam': () =>
    tf.train.combine([{ variables: /table/, use: tf.train.ftrl(0.1) }, { use: tf.train.adam(0.02) }]),
};

describe.each(ENGINES)('engine %s', (engine) => {
  let cluster: EngineCluster;
  beforeAll(async () => {
    cluster = await EngineCluster.start(engine);
  });
  afterAll(() => cluster.close());

  const device = (worker: number) =>
    replicaDeviceSetter({ psTasks: cluster.ps.length, workerDevice: taskId('worker', worker) });

  it.each(Object.entries(OPTIMIZERS))(
    '%s makes the steps of one process, dense and sparse',
    async (_, make) => {
      const data = trainingData(STEPS);
      const alone = await train(data, make());
      const together = await train(data, make(), {
        device: device(0),
        open: (graph) => cluster.session(graph),
      });
      for (const [step, values] of together.entries())
        for (const [name, value] of Object.entries(values))
          expect(relativeError(value, alone[step]?.[name]), `${name} after step ${step + 1}`).toBeLessThan(
            1e-5,
          );
    },
  );

  it('rows of a partitioned table are updated where they are, each as often as it was used', async () => {
    const [rows, steps] = [50, 8];
    const graph = new Graph();
    const { ids, trainOp, table, init } = graph.asDefault(() =>
      tf.device(device(0), () => {
        const ids = tf.placeholder({ dtype: 'int64', shape: [null] });
        const table = tf.partitionedVariable('sparse/table', {
          shape: [rows, 2],
          initializer: tf.zerosInitializer(),
          partitioner: tf.fixedSizePartitioner(2),
        });
        const loss = tf.embeddingLookup(table, ids).sum().neg();
        const trainOp = tf.train.sgd(1).minimize(loss);
        return { ids, trainOp, table: table.toOutput(), init: tf.globalVariablesInitializer() };
      }),
    );
    await using session = cluster.session(graph);
    await session.run(init);
    const expected = Array.from({ length: rows }, () => [0, 0]);
    for (let step = 0; step < steps; step++) {
      const used = Array.from({ length: 20 }, (_, i) => (i * i + step) % rows);
      for (const row of used) expected[row] = (expected[row] as number[]).map((count) => count + 1);
      await session.run(trainOp, { feeds: [[ids, used]] });
    }
    expect(plain(await session.run(table))).toEqual(expected);
  });

  it('every step of workers that train asynchronously is counted once, with many in flight', async () => {
    const [steps, inFlight] = [120, 12];
    const worker = async (index: number, isFirst: boolean) => {
      const graph = new Graph();
      const { trainOp, counts, init } = graph.asDefault(() =>
        tf.device(device(index), () => {
          const globalStep = tf.getOrCreateGlobalStep();
          const made = [0, 1].map((at) =>
            tf.variable(`async/v${at}`, { shape: [3], initializer: [0, 0, 0] }),
          );
          const loss = tf.addN(made.map((one) => one.sum())).neg();
          const trainOp = tf.train.sgd(1, { useLocking: true }).minimize(loss, { globalStep });
          return { trainOp, counts: { globalStep, made }, init: tf.globalVariablesInitializer() };
        }),
      );
      const session = cluster.session(graph, index);
      if (isFirst) await session.run(init);
      const loop = async () => {
        for (let i = 0; i < steps / inFlight; i++) await session.run(trainOp);
      };
      return {
        run: () => Promise.all(Array.from({ length: inFlight }, loop)),
        counts: async () => plain(await session.run({ step: counts.globalStep, made: counts.made })),
        close: () => session.close(),
      };
    };
    const workers = [await worker(0, true), await worker(1, false)];
    await Promise.all(workers.map(({ run }) => run()));
    const total = workers.length * steps;
    expect(await workers[0]?.counts()).toEqual({
      step: BigInt(total),
      made: [0, 1].map(() => Array(3).fill(total)),
    });
    await Promise.all(workers.map(({ close }) => close()));
  });

  it.each(['Adagrad', 'FTRL and Adagrad'])(
    'workers that train synchronously by %s make the steps of one process with all their data',
    async (name) => {
      const made = () =>
        name === 'Adagrad'
          ? tf.train.adagrad(0.2)
          : tf.train.combine([{ variables: /^w$/, use: tf.train.ftrl(0.2) }, { use: tf.train.adagrad(0.2) }]);
      const part = (index: number) => [1 + index, 2 - index, 0.5 * index];
      const model = (x: Output) => {
        const w = tf.variable('w', { shape: [1], initializer: [0.5] });
        const b = tf.variable('b', { shape: [1], initializer: [0.25] });
        const loss = x.mul(w).add(b).sub(x.mul(0.1).add(0.3)).square().mean();
        return { loss, optimizer: made(), outputs: { w, b } };
      };
      const job = defineJob({
        name: 'sync',
        input: ({ index }) => ({ x: tf.constant(part(index)) }),
        model: ({ input }) => model(input.x),
        train: { lastStep: STEPS, sync: true },
      });
      const { last } = await trainOnCluster(job, STEPS, engine);

      const graph = new Graph();
      const { trainOp, outputs, init } = graph.asDefault(() => {
        const all = Array.from({ length: WORKERS }, (_, index) => part(index)).flat();
        const { loss, optimizer, outputs } = model(tf.constant(all));
        return { trainOp: optimizer.minimize(loss), outputs, init: tf.globalVariablesInitializer() };
      });
      await using session = Session.open({ graph });
      await session.run(init);
      for (let i = 0; i < STEPS; i++) await session.run(trainOp);
      const expected = plain(await session.run([outputs.w, outputs.b]));
      expect(relativeError([last.w, last.b], expected)).toBeLessThan(1e-5);
    },
  );
});
