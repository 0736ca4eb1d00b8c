/** A warm start on a cluster of real processes: the values are on the chief's disk, the variables on two ps. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { Session } from '../../src/tensorflow/session/session.js';
import { simpleSave } from '../../src/training/saved-model/index.js';
import { TaskProcesses } from './processes.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-warm-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

it('initializes every ps with its part of the chief’s SavedModel', { timeout: 600_000 }, async () => {
  const model = join(root, 'model');
  using graph = new Graph();
  const { x, y, init } = graph.asDefault(() => {
    const x = tf.placeholder({ shape: [null, 4], name: 'x' });
    const w = tf.variable('old/w', {
      shape: [4, 2],
      initializer: [
        [1, 2],
        [3, 4],
        [5, 6],
        [7, 8],
      ],
    });
    return { x, y: tf.matMul(x, w), init: tf.globalVariablesInitializer() };
  });
  await using session = Session.open({ graph });
  await session.run(init);
  await simpleSave(session, model, { inputs: { x }, outputs: { y } });
  await mkdir(join(root, 'tasks'));
  const env = { TASKS_ROOT: join(root, 'tasks') };
  await using tasks = await TaskProcesses.create('warm-job.ts', 2, 2, { ...env, WARM_FROM: model });
  for (const index of [0, 1]) tasks.start('ps', index);
  const workers = [0, 1].map((index) => tasks.start('worker', index));
  const codes = await Promise.all(workers.map(({ exit }) => exit));
  const [chief, other] = workers.map((task) => task.output()) as [string, string];
  expect(codes, `${chief}\n---\n${other}`).toEqual([0, 0]);
  expect(chief).toMatch(/initializing 1 variables from .*model\/variables\/variables/);
  expect(other).not.toMatch(/initializing/);
  for (const output of [chief, other]) expect(output).toContain('w = [[1,2],[3,4],[5,6],[7,8]] · b = [5]');
});
