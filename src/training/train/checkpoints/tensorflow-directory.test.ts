/** Directories in which Python's TensorFlow has trained: training continues from its checkpoint, and its files stay. */
import { createHash } from 'node:crypto';
import { appendFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { defineJob } from '../../../app/job/definition/define-job.js';
import { runInProcess } from '../../../app/job/running/run-local.js';
import * as tf from '../../../app/tf/index.js';
import { Session } from '../../../tensorflow/session/session.js';
import { Scaffold } from '../core/scaffold.js';
import { StopAtStepHook } from '../hooks/stop-at-step.js';
import { MonitoredTrainingSession } from '../sessions/monitored-training-session.js';
import { Supervisor } from '../sessions/supervisor.js';
import { smallModel } from '../testing/small-model.js';
import { Workspace } from '../testing/workspace.js';
import { latestCheckpoint } from './latest-checkpoint.js';
import { Saver } from './saver.js';

interface Look {
  readonly latest: string;
  readonly all: readonly string[];
  readonly values: Readonly<Record<string, { readonly w: number[]; readonly global_step: number }>>;
}

const PYTHON = new URL('../testing/tensorflow-run.py', import.meta.url);
const python = <T>(request: object) => askPython<T>(PYTHON, request);
const look = (directory: string) => python<Look>({ do: 'look', directory });

let space: Workspace;
/** A directory after 15 steps of TensorFlow, and the value of `w`. */
let trained: string;
let trainedW: number[];
let directory: string;
const lines: string[] = [];
const log = (line: string) => lines.push(line);

beforeAll(async () => {
  space = await Workspace.make();
  trained = space.path();
  mkdirSync(trained);
  trainedW = (await trainWithPython(trained, 15)).w;
});
afterAll(() => space[Symbol.asyncDispose]());
beforeEach(() => {
  directory = space.path();
  mkdirSync(directory);
  lines.length = 0;
});

/** The checksums of TensorFlow's files. */
function sums(): Record<string, string> {
  const files = readdirSync(directory).filter((file) =>
    /^model\.ckpt-(5|10|15)\.(index|meta|data-)/.test(file),
  );
  const sum = (file: string) =>
    createHash('sha256')
      .update(readFileSync(join(directory, file)))
      .digest('hex');
  return Object.fromEntries(files.map((file) => [file, sum(file)]));
}

const trainWithPython = (directory: string, steps: number) =>
  python<{ step: number; w: number[] }>({ do: 'train', directory, steps });
/** Makes a copy look as if TensorFlow had trained there: it writes absolute paths. */
function copyTrained(): void {
  cpSync(trained, directory, { recursive: true });
  const state = join(directory, 'checkpoint');
  writeFileSync(state, readFileSync(state, 'utf8').replaceAll(trained, directory));
}

/** Trains to a step; returns the step that training started from. */
async function monitored(lastStep: number, maxToKeep = 5): Promise<number> {
  const { graph, trainOp, globalStep } = smallModel();
  let first = Number.NaN;
  await MonitoredTrainingSession(
    {
      graph,
      checkpointDir: directory,
      scaffold: new Scaffold({ saver: new Saver({ maxToKeep, log }) }),
      saveCheckpointSteps: 4,
      hooks: [new StopAtStepHook({ lastStep })],
      log,
    },
    async (session) => {
      first = (await session.rawSession.run(globalStep)).number();
      while (!session.shouldStop()) await session.run(trainOp);
    },
  );
  return first;
}

describe('a directory in which TensorFlow has trained', () => {
  test('is continued by a monitored session, and TensorFlow’s own checkpoints stay', async () => {
    copyTrained();
    const before = sums();
    expect(Object.keys(before)).toHaveLength(9);
    expect(await monitored(31, 2)).toBe(15);
    expect(sums()).toEqual(before);
    const { latest, all, values } = await look(directory);
    expect(latest).toBe(join(directory, 'model.ckpt-31'));
    expect(all).toEqual(['model.ckpt-5', 'model.ckpt-10', 'model.ckpt-15', 'model.ckpt-27', 'model.ckpt-31']);
    expect(values['model.ckpt-15']?.w).toEqual(trainedW);
    expect(values['model.ckpt-31']?.global_step).toBe(31);
    // Old checkpoints of Shoal are removed.
    expect(readdirSync(directory).filter((file) => /ckpt-(19|23)\b/.test(file))).toEqual([]);
    // The next run continues from Shoal's checkpoint, not from TensorFlow's.
    expect(await monitored(33, 2)).toBe(31);
    expect(sums()).toEqual(before);
  });

  test('is continued by a supervisor', async () => {
    copyTrained();
    const before = sums();
    const { graph, trainOp, globalStep } = smallModel();
    const sv = new Supervisor({ graph, logdir: directory, saveModelSecs: 600, log });
    const first = await sv.managedSession(undefined, async (session) => {
      const step = (await session.run(globalStep)).number();
      await session.run(trainOp);
      return step;
    });
    expect(first).toBe(15);
    expect(sums()).toEqual(before);
    expect((await look(directory)).latest).toBe(join(directory, 'model.ckpt-16'));
  });

  test('is continued by a job in one process', async () => {
    copyTrained();
    const before = sums();
    const job = defineJob({
      name: 'small',
      model: () => {
        const w = tf.variable('w', { shape: [1], initializer: [1] });
        const b = tf.variable('b', { shape: [1], initializer: [0] });
        return { loss: w.add(b).square().mean(), optimizer: tf.train.sgd(0.5) };
      },
      train: { lastStep: 17, checkpoint: { everySecs: 3600, directory } },
    });
    const { ownSteps } = await runInProcess(job, { dir: space.path(), log });
    expect(ownSteps).toBe(2);
    expect(sums()).toEqual(before);
    expect(await latestCheckpoint(directory)).toBe(join(directory, 'model.ckpt-17'));
  });

  test('is continued by TensorFlow after Shoal, and by Shoal after that', async () => {
    expect(await monitored(10)).toBe(0);
    expect((await trainWithPython(directory, 10)).step).toBe(20);
    expect(await monitored(22)).toBe(20);
    const { latest, all } = await look(directory);
    expect(latest).toBe(join(directory, 'model.ckpt-22'));
    expect(all).toContain('model.ckpt-15');
  });

  test('is not overwritten by a checkpoint of the same name', async () => {
    copyTrained();
    const before = sums();
    writeFileSync(join(directory, 'checkpoint'), 'model_checkpoint_path: "model.ckpt-5"\n');
    const { graph, trainOp } = smallModel();
    await using session = await Session.create({ graph });
    const saver = new Saver({ log });
    await saver.restoreNewest(session, directory);
    for (let i = 0; i < 3; i++) await session.run(trainOp);
    const path = join(directory, 'model.ckpt');
    await expect(saver.save(session, path, { globalStep: 10 })).rejects.toMatchObject({
      code: 'SHOAL_ALREADY_EXISTS',
      hint: expect.stringContaining('model.ckpt-10.*') as string,
    });
    expect(sums()).toEqual(before);
    expect(readdirSync(directory).filter((file) => file.startsWith('model.ckpt-10@'))).toEqual([]);
    await saver.save(session, path, { globalStep: 10, mayHide: true });
    expect(sums()).toEqual(before);
    expect(lines.join('\n')).toMatch(
      /does not show model\.ckpt-10: it has files of that name that Shoal did not write/,
    );
    await saver.save(session, join(directory, 'model.ckpt'));
    expect((await look(directory)).latest).toBe(join(directory, 'model.ckpt-8'));
  });

  test.each([
    ['whose data file is gone', () => rmSync(join(directory, 'model.ckpt-15.data-00000-of-00001'))],
    ['whose index is gone', () => rmSync(join(directory, 'model.ckpt-15.index'))],
    ['whose index is damaged', () => writeFileSync(join(directory, 'model.ckpt-15.index'), 'x')],
    ['whose `checkpoint` file is damaged', () => appendFileSync(join(directory, 'checkpoint'), '{{{')],
  ])('and a checkpoint %s is rejected: training does not restart from initial values', async (_, damage) => {
    copyTrained();
    damage();
    const before = readdirSync(directory).sort();
    await expect(monitored(20)).rejects.toMatchObject({ code: 'SHOAL_CORRUPT', hint: expect.any(String) });
    expect(
      readdirSync(directory)
        .sort()
        .filter((file) => !/tfevents|graph|\.shoal-uploads/.test(file)),
    ).toEqual(before);
  });
});

test('the directory lists the other checkpoints if one is damaged', async () => {
  await monitored(9);
  const blob = readdirSync(directory).find((file) => file.startsWith('model.ckpt-8@')) as string;
  writeFileSync(join(directory, blob, 'model.ckpt-8.index'), 'torn');
  rmSync(join(directory, 'model.ckpt-8.index'));
  await monitored(12);
  expect(lines.join('\n')).toMatch(/does not show model\.ckpt-8: /);
  const { latest, all } = await look(directory);
  expect(latest).toBe(join(directory, 'model.ckpt-12'));
  expect(all).not.toContain('model.ckpt-8');
  expect(all).toContain('model.ckpt-9');
});
