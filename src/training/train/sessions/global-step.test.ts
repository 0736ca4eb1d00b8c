/** Which variable counts the steps: the one that the program passes, else the graph's. */
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { constant, zeros } from '../../../tensorflow/ops/creation.js';
import { square, sub, sum } from '../../../tensorflow/ops/math.js';
import { GradientDescentOptimizer } from '../../../tensorflow/optimizers/index.js';
import { Session } from '../../../tensorflow/session/session.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { createGlobalStep, getGlobalStep } from '../../../tensorflow/variables/global-step.js';
import { newVariable } from '../../../tensorflow/variables/variable-scope.js';
import { latestCheckpoint } from '../checkpoints/latest-checkpoint.js';
import { Saver } from '../checkpoints/saver.js';
import { CheckpointSaverHook } from '../hooks/checkpoint-saver.js';
import { Workspace } from '../testing/workspace.js';
import { MonitoredTrainingSession } from './monitored-training-session.js';
import { Supervisor, type SupervisorOptions } from './supervisor.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.make();
});
afterAll(() => space[Symbol.asyncDispose]());

/** A graph with a weight and a counter that is not in the collection of global steps. */
function counted(name: string, dtype: DType = 'int64') {
  const graph = new Graph();
  const parts = graph.asDefault(() => {
    const weight = newVariable(zeros([2]), { name: 'w' });
    const counter = newVariable(0, { name, dtype, trainable: false });
    const loss = sum(square(sub(weight, 1)));
    const trainOp = new GradientDescentOptimizer(0.1).minimize(loss, { globalStep: counter });
    return { weight, counter, trainOp };
  });
  return { graph, ...parts };
}

async function trained(model: ReturnType<typeof counted>, steps: number, options: SupervisorOptions) {
  const sv = new Supervisor({ graph: model.graph, log: () => {}, ...options });
  return sv.managedSession(undefined, async (session) => {
    for (let i = 0; i < steps; i++) await session.run(model.trainOp);
    return (await session.run(model.weight.toOutput())).toArray();
  });
}

describe('a CheckpointSaverHook', () => {
  it.each(['int64', 'int32'] as const)(
    'names checkpoints by a counter named global_step, an %s',
    async (dtype) => {
      const checkpointDir = space.path();
      const { graph, trainOp } = counted('global_step', dtype);
      const saver = graph.asDefault(() => new Saver());
      const hooks = [new CheckpointSaverHook({ checkpointDir, saveSteps: 2, saver })];
      await MonitoredTrainingSession({ graph, hooks, log: () => {} }, async (session) => {
        for (let i = 0; i < 5; i++) await session.run(trainOp);
      });
      expect(await latestCheckpoint(checkpointDir)).toBe(`${checkpointDir}/model.ckpt-5`);
      const steps = readdirSync(checkpointDir).flatMap((file) => /-(\d+)\.index$/.exec(file)?.[1] ?? []);
      expect(steps.map(Number).sort()).toEqual([0, 2, 4, 5]);
    },
  );
});

describe('a supervisor', () => {
  it.each([
    ['that it was given', 'steps', true],
    ['that it was given, an int32,', 'steps', true, 'int32'],
    ['with the name global_step', 'global_step', false],
  ] as const)('names checkpoints by the counter %s', async (_, name, isGiven, dtype: DType = 'int64') => {
    const logdir = space.path();
    const model = counted(name, dtype);
    await trained(model, 3, { logdir, ...(isGiven && { globalStep: model.counter }) });
    expect(await latestCheckpoint(logdir)).toBe(`${logdir}/model.ckpt-3`);
    const again = counted(name, dtype);
    await trained(again, 2, { logdir, ...(isGiven && { globalStep: again.counter }) });
    expect(await latestCheckpoint(logdir)).toBe(`${logdir}/model.ckpt-5`);
  });

  it('saves the trained state without any counter', async () => {
    const logdir = space.path();
    const model = counted('steps');
    const values = await trained(model, 3, { logdir, globalStep: null });
    const again = counted('steps');
    expect(await trained(again, 0, { logdir, globalStep: null })).toEqual(values);
  });

  it('refuses a counter that is not an integer', () => {
    const { graph, weight } = counted('steps');
    expect(() => new Supervisor({ graph, globalStep: weight })).toThrow(/integer variable/);
  });

  it('takes null for the default of every option', async () => {
    const model = counted('steps');
    const options = { logdir: null, initOp: null, recovery: null, signal: null, saveModelSecs: null };
    const sv = new Supervisor({ graph: model.graph, saver: null, log: () => {}, ...options });
    await sv.managedSession(null, (session) => session.run(model.trainOp));
    expect(sv.savePath).toBeUndefined();
  });
});

it('a variable of the name counts only if it is an integer', () => {
  expect(getGlobalStep(counted('global_step', 'int32').graph)?.dtype).toBe('int32');
  expect(getGlobalStep(counted('global_step', 'float32').graph)).toBeUndefined();
});

it('a saver takes the number of a checkpoint as a number, a value, an output or a variable', async () => {
  const { graph, counter, trainOp } = counted('steps');
  const saver = new Saver({ varList: [counter], maxToKeep: 0 });
  const directory = space.path();
  const six = graph.asDefault(() => constant(6, { dtype: 'int32' }));
  await using session = Session.open({ graph });
  await session.run([
    counter.initializer,
    ...graph.getCollection<typeof counter>('variables').map((v) => v.initializer),
  ]);
  await session.run(trainOp);
  const names: string[] = [];
  for (const globalStep of [4, 5n, six, Tensor.of(7), counter, null])
    names.push((await saver.save(session, `${directory}/m`, { globalStep })).replace(/.*-/, ''));
  expect(names).toEqual(['4', '5', '6', '7', '1', '0']);
  await expect(saver.save(session, `${directory}/m`, { globalStep: 0.5 })).rejects.toThrow(/integer/);
});

it('a saver of other variables, with a number of its own, needs no value of the global step', async () => {
  const { graph, weight } = counted('unset');
  graph.asDefault(() => createGlobalStep());
  await using session = Session.open({ graph });
  await session.run(weight.initializer);
  const saver = graph.asDefault(() => new Saver({ varList: [weight] }));
  const path = `${space.path()}/model`;
  expect(await saver.save(session, path, { globalStep: 5 })).toBe(`${path}-5`);
  await expect(saver.save(session, path)).rejects.toMatchObject({ code: 'SHOAL_TF_FAILED_PRECONDITION' });
});
