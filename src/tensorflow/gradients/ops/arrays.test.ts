/** Gradient checks for ops that move elements, and for ops without a gradient. */
import { expect, test } from 'vitest';
import { Graph } from '../../graph/graph.js';
import { constant } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { gradients } from '../gradients.js';
import { arrayCases } from '../testing/cases/arrays.js';
import { checkGradients } from '../testing/check.js';

checkGradients(arrayCases);

test('no gradient flows through stopGradient', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const x = constant([1, 2]);
    expect(gradients(raw.stopGradient(raw.square(x)), [x])).toEqual([null]);
  });
});

test('a gradient through preventGradient is an error with its message', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const x = constant([1, 2]);
    const y = raw.preventGradient(x, { message: 'not meant to be trained' });
    expect(() => gradients(y, [x])).toThrow(/not meant to be trained/);
  });
});
