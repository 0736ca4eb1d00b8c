/** Variables that start with the values of a checkpoint or a SavedModel. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { tf } from '../../../index.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import {
  type AssignmentMap,
  applyWarmStarts,
  initFromCheckpoint,
  MonitoredTrainingSession,
  Saver,
} from '../index.js';
import { Workspace } from '../testing/workspace.js';

let space: Workspace;
let saved: string;
beforeAll(async () => {
  space = await Workspace.make();
  using graph = new Graph();
  const init = graph.asDefault(() => {
    tf.variable('old/w', {
      shape: [5, 2],
      initializer: [
        [1, 2],
        [3, 4],
        [5, 6],
        [7, 8],
        [9, 10],
      ],
    });
    tf.variable('old/b', { shape: [2], initializer: [0.5, 0.25] });
    tf.variable('names', { shape: [2], dtype: 'string', initializer: ['x', 'y'] });
    return tf.globalVariablesInitializer();
  });
  await using session = Session.open({ graph });
  await session.run(init);
  saved = await new Saver().save(session, join(space.path(), 'model.ckpt'), { globalStep: 3 });
});
afterAll(() => space[Symbol.asyncDispose]());

function model(map: AssignmentMap, path = saved) {
  const graph = new Graph();
  return graph.asDefault(() => {
    const w = tf.partitionedVariable('new/w', {
      shape: [5, 2],
      initializer: tf.zerosInitializer(),
      partitioner: tf.fixedSizePartitioner(2),
    });
    const b = tf.variable('new/b', { shape: [2], initializer: tf.zerosInitializer() });
    const other = tf.variable('other', { shape: [1], initializer: [7] });
    initFromCheckpoint(path, map);
    const globalStep = tf.createGlobalStep();
    return { graph, globalStep, fetches: [w.toOutput(), b, other] as const, b };
  });
}

const W = [
  [1, 2],
  [3, 4],
  [5, 6],
  [7, 8],
  [9, 10],
];

test('a scope maps to another one, partitions to one tensor; other variables are initialized', async () => {
  for (const path of [saved, join(saved, '..')]) {
    const { graph, fetches } = model({ 'old/': 'new/' }, path);
    await using session = await MonitoredTrainingSession({ graph, log: () => {} });
    const values = await session.run([...fetches]);
    expect(values.map((value) => value.toArray())).toEqual([W, [0.5, 0.25], [7]]);
  }
});

test('names and variables are mapped one by one; a plain session applies them after its init op', async () => {
  const { graph, fetches, b } = model({});
  graph.asDefault(() => initFromCheckpoint(saved, { 'old/w': 'new/w', 'old/b': b }));
  await using session = Session.open({ graph });
  await session.run(tf.globalVariablesInitializer(graph));
  const given = await applyWarmStarts(session);
  expect([...given].map(({ name }) => name).sort()).toEqual(['new/b', 'new/w/part_0', 'new/w/part_1']);
  const values = await session.run([...fetches]);
  expect(values.map((value) => value.toArray())).toEqual([W, [0.5, 0.25], [7]]);
});

test('a checkpoint of the job itself takes precedence', async () => {
  const checkpointDir = space.path();
  const first = model({ 'old/': 'new/' });
  const change = first.graph.asDefault(() => [first.b.assign([9, 9]), first.globalStep.assignAdd(1)]);
  {
    await using session = await MonitoredTrainingSession({
      graph: first.graph,
      checkpointDir,
      log: () => {},
    });
    await session.run(change);
  }
  const second = model({ 'old/': 'new/' });
  await using session = await MonitoredTrainingSession({ graph: second.graph, checkpointDir, log: () => {} });
  expect((await session.run(second.b)).toArray()).toEqual([9, 9]);
});

test('errors name the variable that does not fit', async () => {
  expect(() => model({ 'old/w': 'nothing' })).toThrow(/no variable 'nothing'/);
  expect(() => model({ 'old/': 'nowhere/' })).toThrow(/no variables in the scope/);
  expect(() => model({ 'old/': 'other' })).toThrow(/is a scope/);
  const fails = async (map: AssignmentMap, code: string, message: RegExp, path = saved) => {
    const { graph } = model(map, path);
    await using session = Session.open({ graph });
    await expect(applyWarmStarts(session)).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  };
  await fails({ 'old/w': 'other' }, 'SHOAL_INVALID_ARGUMENT', /'other' is float32 \[1\].*'old\/w'.*\[5, 2\]/);
  await fails({ names: 'new/b' }, 'SHOAL_INVALID_ARGUMENT', /'new\/b' is float32 \[2\].*string/);
  await fails({ missing: 'other' }, 'SHOAL_NOT_FOUND', /no tensor named missing/);
  await fails({ 'old/b': 'new/b' }, 'SHOAL_NOT_FOUND', /no checkpoint at/, '/nowhere/model.ckpt-1');
});
