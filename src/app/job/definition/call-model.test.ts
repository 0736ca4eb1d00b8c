/** What a model function may return. */
import { describe, expect, test } from 'vitest';
import { described } from '../../../../test/described.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import { sum } from '../../../tensorflow/ops/math.js';
import { GradientDescentOptimizer } from '../../../tensorflow/optimizers/rules/gradient-descent.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { variable } from '../../../tensorflow/variables/variable-scope.js';
import { range } from '../../../training/input/dataset/sources.js';
import { buildServingGraph } from '../graph/serving-graph.js';
import { buildTrainingGraph } from '../graph/training-graph.js';
import { defineJob } from './define-job.js';

const parts = () => {
  const w = variable('w', { shape: [2] });
  return { w, loss: sum(w.mul([1, 2])), optimizer: new GradientDescentOptimizer(0.1) };
};
const jobOf = (model: () => unknown) =>
  defineJob({ name: 'j', model: model as never, train: { lastStep: 1 } });

test.each([
  [
    'a misspelt loss',
    () => {
      const { loss, optimizer } = parts();
      return { los: loss, optimizer };
    },
    /returns 'los'.*\n.*'loss'\?/s,
  ],
  [
    'misspelt outputs',
    () => ({ ...parts(), w: undefined, output: {} }),
    /returns 'output'.*\n.*'outputs'\?/s,
  ],
  ['no optimizer', () => ({ loss: parts().loss }), /returns no optimizer; it returns loss\n.*Return \{/s],
  ['nothing', () => undefined, /returns nothing\n.*Return \{/s],
  ['a promise', async () => parts(), /returns a promise\n.*remove async/s],
  [
    'a name as optimizer',
    () => ({ ...parts(), optimizer: 'adam' }),
    /optimizer that is not one\n.*tf\.train/s,
  ],
  ['a number as loss', () => ({ ...parts(), loss: 3 }), /loss that is not a tensor.*\n/],
  ['outputs without names', () => ({ ...parts(), outputs: [1] }), /outputs without names\n.*Name each/s],
  [
    'an output that is no tensor',
    () => ({ ...parts(), outputs: { a: 1 } }),
    /output 'a' that is not a tensor.*\n/,
  ],
])('%s is an error that says so', (_title, model, pattern) => {
  expect(() => buildTrainingGraph(jobOf(model))).toThrow(described(pattern));
});

test.each([
  ['a number', () => 3, /returns a value without a name\n.*Name each one/s],
  ['null', () => null, /returns null\n.*Name each one/s],
  ['numbers', () => Float32Array.of(1, 2), /returns values without names/],
  ['a value', () => Tensor.of([1, 2]), /returns values without names/],
  ['a map', () => new Map([['x', constant([1])]]), /returns values without names/],
  ['a tensor', () => constant([1]), /returns values without names/],
  ['a list', () => [constant([1])], /returns values without names/],
  ['a dataset of numbers', () => range(3), /returns values without names/],
  ['a promise', async () => ({ x: constant([1]) }), /returns a promise\n.*remove async/s],
])('%s as input is an error that says so', (_title, input, pattern) => {
  const job = defineJob({ name: 'j', input: input as never, model: parts as never, train: { lastStep: 1 } });
  expect(() => buildTrainingGraph(job)).toThrow(described(pattern));
});

test('a name that is too long is not said to have wrong letters', () => {
  expect(() => defineJob({ name: 'x'.repeat(101), model: parts as never, train: { lastStep: 1 } })).toThrow(
    described(/has at most 100 characters; 'x{20}…' has 101\n/),
  );
});

test('an output that needs the labels is a warning', () => {
  const job = defineJob({
    name: 'labelled',
    input: () => ({ x: constant([1, 2]), label: constant([1, 0]) }),
    model({ input }) {
      const { w, loss, optimizer } = parts();
      const y = input.x.mul(w);
      return { loss, optimizer, outputs: { y, error: y.sub(input.label) } };
    },
    train: { lastStep: 1 },
    export: {},
  });
  const { graph, warnings } = buildServingGraph(job);
  graph.dispose();
  expect(warnings).toEqual([
    expect.stringMatching(/requires the input 'label' because of the output 'error'; 'y' does not/),
  ]);
});

describe('without an output that needs no label', () => {
  interface Input {
    readonly x: Output;
    readonly size: Output;
    readonly label: Output;
  }
  const warningsOf = (model: (input: Input) => Output) => {
    const job = defineJob({
      name: 'labelled',
      input: () => ({ x: constant([1, 2]), size: constant([1, 2]), label: constant([1, 0]) }),
      model({ input }) {
        const output = model(input as Input);
        const loss = output.sub(input.label).square().sum();
        return { loss, optimizer: new GradientDescentOptimizer(0.1), outputs: { output } };
      },
      train: { lastStep: 1 },
      export: {},
    });
    const { graph, warnings } = buildServingGraph(job);
    graph.dispose();
    return warnings;
  };
  const weight = (name = 'w') => variable(name, { initializer: 1 });

  test('the label is found', () => {
    expect(warningsOf(({ x, label }) => x.mul(weight()).sub(label).square())).toEqual([
      expect.stringMatching(/requires the input 'label' because of the output 'output'; if it is a label/),
    ]);
  });

  test('a mask, joined features and features with weights of their own are no labels', () => {
    expect(warningsOf(({ x, size }) => x.mul(weight()).mul(size))).toEqual([]);
    expect(warningsOf(({ x, size }) => x.add(size).mul(weight()))).toEqual([]);
    expect(warningsOf(({ x, size }) => x.mul(weight()).mul(size.mul(weight('v'))))).toEqual([]);
  });
});
