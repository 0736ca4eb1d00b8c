/** Both engines compute what one process computes: values, gradients, control flow, every kind of tensor. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ShoalError } from '../../src/base/errors/errors.js';
import { Tensor, tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import type { Output } from '../../src/tensorflow/graph/operation.js';
import * as raw from '../../src/tensorflow/ops/generated/index.js';
import { type Devices, ENGINES, EngineCluster, expectSameValues, ON_CLUSTER } from './engine-cluster.js';
import { oldLoop } from './old-loop.js';

describe.each(ENGINES)('engine %s', (engine) => {
  let cluster: EngineCluster;
  beforeAll(async () => {
    cluster = await EngineCluster.start(engine);
  });
  afterAll(() => cluster.close());

  describe('values', () => {
    it('pass between a worker and two ps, in both directions, several times', () =>
      expectSameValues(cluster, ({ ps, worker }) => {
        const a = tf.device(ps[0], () => tf.variable('values/a', { initializer: [1, 2, 3] }));
        const b = tf.device(ps[1], () => tf.variable('values/b', { initializer: [4, 5, 6] }));
        const product = tf.device(worker, () => a.mul(b));
        const onPs = tf.device(ps[0], () => product.add(b).tanh());
        const back = tf.device(ps[1], () => onPs.sub(product));
        const sum = tf.device(worker, () => back.add(onPs).sum());
        return { before: tf.globalVariablesInitializer(), fetches: [product, onPs, back, sum] };
      }));

    it('of updates are seen by what a control edge puts after them', () =>
      expectSameValues(
        cluster,
        ({ ps, worker }) => {
          const [a, b] = ps.map((device, at) =>
            tf.device(device, () => tf.variable(`order/v${at}`, { initializer: 1 })),
          ) as [ReturnType<typeof tf.variable>, ReturnType<typeof tf.variable>];
          const first = tf.device(ps[0], () => a.assignAdd(1));
          const second = tf.controlDependencies([first], () =>
            tf.device(ps[1], () => b.assignAdd(tf.device(worker, () => a.read().mul(10)))),
          );
          const last = tf.controlDependencies([second], () =>
            tf.device(worker, () => a.read().add(b.read())),
          );
          return { before: tf.globalVariablesInitializer(), fetches: [last] };
        },
        { runs: 3 },
      ));

    it('of a variable change where it is, whatever the device of the op that changes it', () =>
      expectSameValues(
        cluster,
        ({ ps, worker }) => {
          const v = tf.device(ps[1], () => tf.variable('elsewhere', { initializer: [1, 2] }));
          const add = tf.device(worker, () => raw.assignAddVariableOp(v.handle, tf.constant([10, 20])));
          return {
            before: tf.globalVariablesInitializer(),
            fetches: tf.controlDependencies([add], () => v.read()),
          };
        },
        { runs: 2 },
      ));

    it('of every numeric type, of bools, and of empty tensors', () =>
      expectSameValues(cluster, ({ ps, worker }) => {
        const types = ['float32', 'float64', 'int8', 'uint8', 'int16', 'int32', 'int64', 'bool'] as const;
        const fetches = types.map((dtype) => {
          const given = tf.device(worker, () => tf.cast(tf.range(0, 6, 1), dtype));
          const there = tf.device(ps[0], () =>
            raw.concatV2([given, given], Tensor.of(0, { dtype: 'int32' })),
          );
          return tf.device(ps[1], () => raw.reverseV2(there, Tensor.of([0], { dtype: 'int32' })));
        });
        const empty = tf.device(ps[0], () => tf.zeros([0, 3]));
        return {
          fetches: [
            ...fetches,
            tf.device(ps[1], () => raw.concatV2([empty, empty], Tensor.of(0, { dtype: 'int32' }))),
          ],
        };
      }));

    it('of strings: empty, long, with zero bytes, in several dimensions', () =>
      expectSameValues(cluster, ({ ps, worker }) => {
        const words = tf.device(worker, () =>
          raw.stringJoin([
            tf.constant([
              ['', 'short'],
              ['a\0b', 'ü'.repeat(100)],
            ]),
            tf.constant('·'),
          ]),
        );
        const doubled = tf.device(ps[0], () => raw.stringJoin([words, words]));
        const lengths = tf.device(ps[1], () => raw.stringLength(doubled));
        return { fetches: [doubled, lengths] };
      }));

    it('of variants: a list of tensors made on one ps and read on another', () =>
      expectSameValues(cluster, ({ ps, worker }) => {
        const rows = tf.device(worker, () => tf.random.uniform([4, 2]).mul(0).add([1, 2]));
        const list = tf.device(ps[0], () =>
          raw.tensorListFromTensor(rows, Tensor.of([2], { dtype: 'int32' })),
        );
        const longer = tf.device(ps[1], () => raw.tensorListPushBack(list, tf.constant([7, 8])));
        const stacked = tf.device(worker, () =>
          raw.tensorListStack(longer, Tensor.of([2], { dtype: 'int32' }), { elementDtype: 'float32' }),
        );
        return { fetches: stacked };
      }));

    it('of 20 MB are fed, stored on a ps, and fetched', async () => {
      const size = 5_000_000;
      const graph = new Graph();
      const { value, assign, sum, read } = graph.asDefault(() => {
        const value = tf.device(ON_CLUSTER.worker, () => tf.placeholder({ shape: [size] }));
        const v = tf.device(ON_CLUSTER.ps[1], () =>
          tf.variable('large', { shape: [size], initializer: tf.zerosInitializer() }),
        );
        return { value, assign: v.assign(value), sum: tf.sum(v), read: v.read() };
      });
      const data = Float32Array.from({ length: size }, (_, i) => i % 7);
      await using session = cluster.session(graph);
      for (let round = 0; round < 3; round++) {
        await session.run(assign, { feeds: [[value, data]] });
        using back = (await session.run(read)) as Tensor<'float32'>;
        expect(
          Buffer.compare(
            Buffer.from(back.data.buffer, back.data.byteOffset, back.byteLength),
            Buffer.from(data.buffer),
          ),
        ).toBe(0);
      }
      expect((await session.run(sum)).number()).toBeCloseTo(3 * size, -4);
    });
  });

  it('gradients flow through ops on several tasks', () =>
    expectSameValues(
      cluster,
      ({ ps, worker }) => {
        const matrix = (...values: number[]) =>
          Tensor.of(Float32Array.from(values), { shape: [values.length / 2, 2] });
        const w = tf.device(ps[0], () =>
          tf.variable('slopes/w', { initializer: matrix(0.5, -1, 0.2, 0.25) }),
        );
        const b = tf.device(ps[1], () => tf.variable('slopes/b', { initializer: [0.1, 0.2] }));
        const table = tf.device(ps[1], () =>
          tf.variable('slopes/t', { initializer: matrix(1, 2, 3, 4, 5, 6) }),
        );
        const loss = tf.device(worker, () => {
          const rows = table.gather([2, 0, 2]);
          const hidden = tf.device(ps[0], () =>
            tf
              .constant(matrix(0.1, 0.2, 0.3, 0.4))
              .matMul(w)
              .add(b)
              .tanh(),
          );
          return hidden.square().sum().add(rows.mul(rows).sum());
        });
        const slopes = tf.device(worker, () => tf.gradients(loss, [w, b, table]));
        const fetches = slopes.flatMap((slope) =>
          slope && 'indices' in slope ? [slope.values, slope.indices] : [slope as Output],
        );
        return { before: tf.globalVariablesInitializer(), fetches: [loss, ...fetches] };
      },
      // TensorFlow fuses ops, which depends on the graph that it sees.
      { within: 1e-5 },
    ));

  describe('control flow', () => {
    it('conditionals and loops run where they are, with captured values from elsewhere', () =>
      expectSameValues(cluster, ({ ps, worker }) => {
        const a = tf.device(ps[0], () => tf.variable('flow/a', { initializer: 3 }));
        const b = tf.device(ps[1], () => tf.variable('flow/b', { initializer: 4 }));
        const [x, y] = [a.read(), b.read()];
        const chosen = [ps[0], worker].map((device) =>
          tf.device(device, () =>
            tf.condOne(
              x.greater(y),
              () => x.mul(y),
              () => x.add(y),
            ),
          ),
        );
        const looped = [ps[1], worker].map((device) =>
          tf.device(
            device,
            () =>
              tf.whileLoop(
                (i) => i.less(100),
                (i) => i.mul(x).add(y),
                [tf.constant(1)],
              )[0] as Output,
          ),
        );
        return { before: tf.globalVariablesInitializer(), fetches: [...chosen, ...looped] };
      }));

    it('loops of TensorFlow 1 run within a task', () =>
      expectSameValues(cluster, ({ ps, worker }) => {
        const start = tf.device(ps[0], () => tf.variable('old/start', { initializer: 1 }));
        const onWorker = oldLoop(start.read(), 'here', { loop: worker, body: worker });
        const onPs = oldLoop(start.read(), 'there', { loop: ps[1], body: ps[1] });
        return { before: tf.globalVariablesInitializer(), fetches: [onWorker, onPs] };
      }));

    it('a loop of TensorFlow 1 over two tasks runs, or is refused with the name of its op', async () => {
      const build = ({ ps, worker }: Devices) =>
        oldLoop(
          tf.device(worker, () => tf.constant(1)),
          'across',
          { loop: worker, body: ps[0] },
        );
      if (engine === 'grpc') {
        await expectSameValues(cluster, (devices) => ({ fetches: build(devices) }));
        return;
      }
      const graph = new Graph();
      const result = graph.asDefault(() => build(ON_CLUSTER));
      await using session = cluster.session(graph);
      const error = await session.run(result).catch((reason: ShoalError) => reason);
      expect(error).toMatchObject({ code: 'SHOAL_UNSUPPORTED', op: expect.stringMatching(/^across\//) });
      expect((error as ShoalError).hint).toMatch(/engine: 'grpc'/);
    });
  });
});
