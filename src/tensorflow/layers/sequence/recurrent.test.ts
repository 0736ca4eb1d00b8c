/** A recurrent layer is one loop of the graph, for sequences of any length; src/app/keras/layers compares its values. */
import { expect, test } from 'vitest';
import { gradients } from '../../gradients/index.js';
import { toDense } from '../../gradients/indexed-slices.js';
import { Graph } from '../../graph/graph.js';
import { placeholder } from '../../ops/creation.js';
import { sum } from '../../ops/math.js';
import { Session } from '../../session/session.js';
import { Tensor } from '../../tensor/tensor.js';
import { globalVariablesInitializer } from '../../variables/initialize.js';
import { trainableVariables } from '../../variables/variable-scope.js';
import { gru, lstm, simpleRnn } from './recurrent.js';

test.each([
  ['lstm', lstm],
  ['gru', gru],
  ['simpleRnn', simpleRnn],
])('%s has one loop, whatever the number of steps', async (_name, layer) => {
  using graph = new Graph();
  const { x, sequence, found } = graph.asDefault(() => {
    const input = placeholder({ shape: [null, null, 3] });
    const made = layer(input, 4, {}, { keepsAll: true });
    expect(graph.operations().filter(({ type }) => /^(Stateless)?While$/.test(type))).toHaveLength(1);
    const all = gradients([sum(made.sequence!)], trainableVariables(graph));
    return { x: input, sequence: made.sequence!, found: all.map((one) => toDense(one!)) };
  });
  expect(sequence.shape).toEqual([null, null, 4]);
  const session = Session.open({ graph });
  await session.run(graph.asDefault(() => globalVariablesInitializer()));
  for (const steps of [1, 7, 300]) {
    const feeds = [
      [x, Tensor.of(new Float32Array(2 * steps * 3).fill(0.1), { shape: [2, steps, 3] })],
    ] as const;
    const [values, derived] = await session.run([sequence, found], { feeds });
    expect(values.shape).toEqual([2, steps, 4]);
    expect(derived.every(({ data }) => (data as Float32Array).every(Number.isFinite))).toBe(true);
  }
  await session.close();
});
