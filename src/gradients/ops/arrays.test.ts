/** The gradients of ops that move elements, checked; and ops that let no gradient through. */
import { expect, test } from 'vitest';
import { Graph } from '../../graph/graph.js';
import { constant } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { gradients } from '../gradients.js';
import { arrayCases } from '../testing/cases/arrays.js';
import { checkGradients } from '../testing/check.js';

checkGradients(arrayCases);

test('nothing flows back through a stopped gradient', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const x = constant([1, 2]);
    expect(gradients(raw.stopGradient(raw.square(x)), [x])).toEqual([null]);
  });
});

test('a gradient that was ruled out is an error with the message given for it', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const x = constant([1, 2]);
    const y = raw.preventGradient(x, { message: 'not meant to be trained' });
    expect(() => gradients(y, [x])).toThrow(/not meant to be trained/);
  });
});
