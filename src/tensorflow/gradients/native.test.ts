/** TensorFlow's C++ gradient of a single op, independent of how its inputs are computed. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { onesLike, placeholder } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { Session } from '../session/session.js';
import type { Tensor } from '../tensor/tensor.js';
import { gradients } from './gradients.js';
import { toDense } from './indexed-slices.js';
import { nativeGradient } from './native.js';
import { gradientOf } from './registry.js';

let graph: Graph;
beforeEach(() => {
  graph = new Graph();
});
afterEach(() => graph.dispose());

async function evaluate(outputs: readonly (Output | null)[], x: Output, value: number[]): Promise<unknown[]> {
  const session = Session.open({ graph });
  try {
    const values = await session.run([...outputs] as Output[], { feeds: [[x, value]] });
    return values.map((tensor: Tensor | null) => tensor?.toArray() ?? null);
  } finally {
    await session.close();
  }
}

const within = <T>(body: () => T): T => graph.asDefault(body);

test('an input that depends on another input gets only its own share', async () => {
  const x = within(() => placeholder({ shape: [2] }));
  const found = within(() => {
    const y = raw.mul(x, raw.square(x));
    return nativeGradient(y.op, [onesLike(y)], [true, true]);
  });
  expect(await evaluate(found ?? [], x, [3, 5])).toEqual([
    [9, 25],
    [3, 5],
  ]);
});

test('a tensor used for two inputs gets two gradients', async () => {
  const x = within(() => placeholder({ shape: [2] }));
  const found = within(() => {
    const y = raw.mul(x, x);
    return nativeGradient(y.op, [onesLike(y)], [true, true]);
  });
  expect(await evaluate(found ?? [], x, [3, 5])).toEqual([
    [3, 5],
    [3, 5],
  ]);
});

test('ops with control inputs from the incoming gradients are imported', async () => {
  const x = within(() => placeholder({ shape: [2] }));
  const found = within(() => {
    const y = raw.log(raw.square(x));
    return nativeGradient(y.op, [onesLike(y)], [true]);
  });
  expect(await evaluate(found ?? [], x, [1, 2])).toEqual([[1, 0.25]]);
});

test('inputs that were not requested get no gradient', () => {
  const found = within(() => {
    const x = placeholder({ shape: [2] });
    const y = raw.mul(x, placeholder({ shape: [2] }));
    return nativeGradient(y.op, [onesLike(y)], [false, true]);
  });
  expect(found?.map((gradient) => gradient !== null)).toEqual([false, true]);
});

test('an op without a gradient returns undefined', () => {
  const found = within(() => {
    const y = raw.adjustHue(placeholder({ shape: [2, 2, 3] }), 0.1);
    return nativeGradient(y.op, [onesLike(y)], [true, false]);
  });
  expect(found).toBeUndefined();
});

test('the reverse walk uses it for ops that are not in the registry', async () => {
  expect(gradientOf('QuantizeAndDequantizeV3')).toBeUndefined();
  const x = within(() => placeholder({ shape: [2] }));
  const [gradient] = within(() => {
    const y = raw.quantizeAndDequantizeV3(raw.mul(x, 3), -8, 8, 8);
    return gradients(y, [x]).map((found) => found && toDense(found));
  });
  expect(await evaluate([gradient ?? null], x, [1, 2])).toEqual([[3, 3]]);
});

test('the forward op is not duplicated', () => {
  within(() => {
    const x = placeholder({ shape: [2] });
    gradients(raw.quantizeAndDequantizeV3(x, -8, 8, 8), [x]);
  });
  expect(graph.operations().filter(({ type }) => type === 'QuantizeAndDequantizeV3')).toHaveLength(1);
});
