/** Several optimizers for one model: who updates which variable. The values are compared in trajectories.test.ts. */
import { expect, it } from 'vitest';
import { described } from '../../../test/described.js';
import { defineJob } from '../../app/job/definition/define-job.js';
import { buildTrainingGraph } from '../../app/job/graph/training-graph.js';
import { Graph } from '../graph/graph.js';
import { Session } from '../session/session.js';
import { getOrCreateGlobalStep } from '../variables/global-step.js';
import { globalVariablesInitializer } from '../variables/initialize.js';
import { fixedSizePartitioner } from '../variables/partitioned.js';
import { partitionedVariable, variable } from '../variables/variable-scope.js';
import { adagrad, adam, combine, ftrl, momentum, sgd } from './index.js';

function model() {
  const wide = variable('wide/w', { initializer: [1, 2] });
  const deep = variable('deep/w', { initializer: [3, 4] });
  const bias = variable('bias', { initializer: 5 });
  variable('count', { initializer: 1, dtype: 'int32' });
  const loss = wide.square().sum().add(deep.square().sum()).add(bias.square());
  return { wide, deep, bias, loss };
}
const inGraph = <T>(build: () => T): T => new Graph().asDefault(build);

it('each variable has the slots of its optimizer, and the step is counted once', async () => {
  const graph = new Graph();
  const { init, trainOp, step, optimizer, wide, deep, bias } = graph.asDefault(() => {
    const { wide, deep, bias, loss } = model();
    // A pattern with the flag `g` remembers where it matched.
    const optimizer = combine([
      { variables: /^wide\//g, use: ftrl(0.1) },
      { variables: [bias], use: momentum(0.1) },
      { use: adagrad(0.1) },
    ]);
    const globalStep = getOrCreateGlobalStep();
    const trainOp = optimizer.minimize(loss, { globalStep });
    return {
      init: globalVariablesInitializer(),
      trainOp,
      step: globalStep.read(),
      optimizer,
      wide,
      deep,
      bias,
    };
  });
  expect(optimizer.variables(graph).map(({ name }) => name)).toEqual([
    'bias/Momentum',
    'deep/w/Adagrad',
    'wide/w/Ftrl',
    'wide/w/Ftrl_1',
  ]);
  expect(optimizer.slotNames).toEqual(['accum', 'accumulator', 'linear', 'momentum']);
  expect(optimizer.getSlot(wide, 'linear')?.name).toBe('wide/w/Ftrl_1');
  expect(optimizer.getSlot(deep, 'linear')).toBeUndefined();
  expect(optimizer.getSlot(bias, 'momentum')?.name).toBe('bias/Momentum');
  await using session = Session.open({ graph });
  await session.run(init);
  for (let i = 0; i < 3; i++) await session.run(trainOp);
  expect((await session.run(step)).number()).toBe(3);
});

it('the partitions of a variable are named as the whole', () => {
  inGraph(() => {
    const table = partitionedVariable('table', { shape: [4, 2], partitioner: fixedSizePartitioner(2) });
    const { loss } = model();
    const sum = table.parts.reduce((total, part) => total.add(part.square().sum()), loss);
    const optimizer = combine([{ variables: /^table$/, use: adam() }, { use: sgd(0.1) }]);
    optimizer.minimize(sum);
    for (const part of table.parts) expect(optimizer.getSlot(part, 'm')).toBeDefined();
    const byList = combine([{ variables: [table], use: ftrl(1) }, { use: sgd(0.1) }]);
    byList.minimize(sum);
    for (const part of table.parts) expect(byList.getSlot(part, 'accum')).toBeDefined();
  });
});

it.each([
  [
    'a variable without an optimizer',
    () => combine([{ variables: /^wide/, use: sgd(1) }]),
    /no optimizer for 'deep\/w', 'bias'\n.*without `variables`/s,
  ],
  [
    'a variable with two',
    () => combine([{ variables: /w$/, use: sgd(1) }, { variables: /^deep/, use: sgd(1) }, { use: sgd(1) }]),
    /several optimizers for 'deep\/w'\n.*\/w\$\/ and \/\^deep\//s,
  ],
  [
    'an optimizer without a variable',
    () => combine([{ variables: /^wid\//, use: sgd(1) }, { use: sgd(1) }]),
    /Optimizer 1 of Combined, \/\^wid\\\/\/, is for no variable\n.*'wide\/w', 'deep\/w', 'bias'/s,
  ],
  [
    'two for all others',
    () => combine([{ use: sgd(1) }, { use: adam() }]),
    /two optimizers without variables/,
  ],
  ['no optimizer', () => combine([]), /needs a list of optimizers/],
  [
    'a name for an optimizer',
    () => combine([{ use: 'adam' as never }]),
    /Optimizer 1 of Combined has no optimizer as `use`/,
  ],
  ['one in another', () => combine([{ use: combine([{ use: sgd(1) }]) }]), /has no optimizer as `use`/],
  [
    'a name for variables',
    () => combine([{ variables: 'wide' as never, use: sgd(1) }]),
    /not a pattern or a list/,
  ],
  [
    'a misspelt option',
    () => combine([{ variable: /^wide/, use: sgd(1) } as never]),
    /no option 'variable'\n.*'variables'/s,
  ],
])('%s is an error that says so', (_, make, pattern) => {
  inGraph(() => {
    const { loss } = model();
    expect(() => make().minimize(loss)).toThrow(described(pattern));
  });
});

it('a job takes a list of optimizers, and reports the learning rate of each', () => {
  const job = (rate: number) =>
    defineJob({
      name: 'two',
      model: () => ({
        loss: model().loss,
        optimizer: [{ variables: /^wide\//, use: ftrl(rate) }, { use: adagrad(0.01) }],
      }),
      train: { lastStep: 1, summaries: {} },
    });
  const { graph } = buildTrainingGraph(job(0.1));
  const names = graph.operations().map(({ name }) => name);
  expect(names).toContain('wide/w/Ftrl');
  expect(names).toContain('deep/w/Adagrad');
  expect(names.filter((name) => /^learning_rate(_\d)?$/.test(name))).toHaveLength(2);
  graph.dispose();
});
