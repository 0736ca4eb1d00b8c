/**
 * Compares the sparse example as trained (each distinct id looked up once, bags as one product, rows updated together)
 * with the plain form: a row for each id, weighted and summed, and TensorFlow's own kernel for the update.
 */
import { expect, it } from 'vitest';
import { classify, variables } from '../../examples/sparse-linear/model.js';
import { Session, Tensor, tf } from '../../src/index.js';
import { gradients, type IndexedSlices } from '../../src/tensorflow/gradients/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import type { Output } from '../../src/tensorflow/graph/operation.js';
import * as raw from '../../src/tensorflow/ops/generated/index.js';

const [ROWS, BAGS, STEPS] = [60, 30, 25];

/** Bags of 1 to 8 ids, small ids more often, some of them twice in a bag. */
function batch() {
  const sizes = Array.from({ length: BAGS }, (_, bag) => 1 + ((bag * 5) % 8));
  const places = sizes.flatMap((size, bag) => Array.from({ length: size }, (_, i) => [bag, i] as const));
  const ids = places.map(([bag, i]) => Math.floor(ROWS * (((bag * 7 + i * 3) * 0.618) % 1) ** 2));
  const values = places.map(([bag, i]) => 0.5 + ((bag * 13 + i * 29) % 17) / 17);
  const labels = sizes.map((size, bag) => (size + bag) % 2);
  return { places, ids, values, labels };
}

const int64 = (values: readonly number[]) => tf.constant(BigInt64Array.from(values, BigInt));

function trained() {
  const { places, ids, values, labels } = batch();
  const indices = Tensor.of(BigInt64Array.from(places.flat(), BigInt), { shape: [places.length, 2] });
  const shape = Tensor.of(BigInt64Array.of(BigInt(BAGS), 8n));
  const sparse = (of: Output) =>
    new tf.SparseTensor({ indices: tf.constant(indices), values: of, denseShape: tf.constant(shape) });
  const model = variables(ROWS, 3);
  const { loss } = classify(model, {
    label: tf.constant(Float32Array.from(labels)),
    ids: sparse(int64(ids)),
    values: sparse(tf.constant(Float32Array.from(values))),
  });
  return { loss, step: tf.train.ftrl(0.05).minimize(loss), weights: model.weights.toOutput() };
}

function plain() {
  const { places, ids, values, labels } = batch();
  const zeros = tf.zerosInitializer();
  const make = (name: string, shape: number[], initializer: typeof zeros) =>
    tf.variable(name, { shape, initializer });
  const table = make('table', [ROWS, 2], zeros);
  const bias = make('plain_bias', [2], zeros);
  const each = table
    .gather(int64(ids))
    .mul(tf.constant(Tensor.of(Float32Array.from(values), { shape: [values.length, 1] })));
  const bags = tf.constant(Int32Array.from(places, ([bag]) => bag));
  const logits = raw.segmentSum(each, bags).add(bias);
  const loss = tf.losses.sparseSoftmaxCrossEntropy(int64(labels), logits);
  const [rows, biasGradient] = gradients([loss], [table, bias]) as [IndexedSlices, Output];
  const once = rows.deduplicated();
  const slots = (name: string, shape: number[]) =>
    [
      make(`${name}/accum`, shape, tf.constantInitializer(0.1)).handle,
      make(`${name}/linear`, shape, zeros).handle,
    ] as const;
  const number = (value: number) => Tensor.of(value, { dtype: 'float32' });
  const numbers = [number(0.05), number(0), number(0), number(-0.5)] as const;
  const [accum, linear] = slots('table', [ROWS, 2]);
  const [biasAccum, biasLinear] = slots('plain_bias', [2]);
  const step = tf.group([
    raw.resourceSparseApplyFtrl(table.handle, accum, linear, once.values, once.indices, ...numbers),
    raw.resourceApplyFtrl(bias.handle, biasAccum, biasLinear, biasGradient, ...numbers),
  ]);
  return { loss, step, weights: table.read() };
}

it('trains the sparse model like the plain graph, step by step', async () => {
  const graph = new Graph();
  const { ours, theirs, init } = graph.asDefault(() => ({
    ours: trained(),
    theirs: plain(),
    init: tf.globalVariablesInitializer(),
  }));
  await using session = Session.open({ graph });
  await session.run(init);
  for (let i = 0; i < STEPS; i++) {
    const { a, b } = await session.run({ a: ours.loss, b: theirs.loss });
    expect(Math.abs(a.number() - b.number()), `loss of step ${i}`).toBeLessThan(1e-6);
    await session.run([ours.step, theirs.step]);
    const found = await session.run({ ours: ours.weights, theirs: theirs.weights });
    const [own, other] = [found.ours.data as Float32Array, found.theirs.data as Float32Array];
    const apart = own.map((weight, at) => Math.abs(weight - (other[at] ?? Number.NaN)));
    expect(Math.max(...apart), `weights after step ${i}`).toBeLessThan(1e-6);
  }
});
