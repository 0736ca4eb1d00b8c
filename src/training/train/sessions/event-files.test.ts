/** The event files and graph.pbtxt of the chief of a training session, read by Python. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import { StopAtStepHook } from '../hooks/index.js';
import { type SmallModel, smallModel } from '../testing/small-model.js';
import { Workspace } from '../testing/workspace.js';
import { MonitoredTrainingSession } from './monitored-training-session.js';
import { Supervisor } from './supervisor.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.make();
});
afterAll(() => space[Symbol.asyncDispose]());

interface Seen {
  readonly scalars: Readonly<Record<string, readonly [step: number, value: number][]>>;
  readonly hasMetaGraph: boolean;
  readonly statuses: readonly [status: string, step: number, checkpoint: string][];
  readonly nodes: readonly string[];
  /** Whether graph.pbtxt and the graph in the event file are equal, message for message. */
  readonly isSameGraph: boolean;
  readonly operations: number;
}

const pythonSees = (directory: string): Promise<Seen> =>
  askPython(new URL('../testing/read-run.py', import.meta.url), { directory });

async function monitored(model: SmallModel, checkpointDir: string, lastStep: number): Promise<number[]> {
  const losses: number[] = [];
  await MonitoredTrainingSession(
    {
      graph: model.graph,
      checkpointDir,
      saveSummariesSteps: 2,
      logStepCountSteps: 2,
      hooks: [new StopAtStepHook({ lastStep })],
      log: () => {},
    },
    async (session) => {
      while (!session.shouldStop()) {
        const [, loss] = await session.run([model.trainOp, model.loss]);
        losses.push(loss.number());
      }
    },
  );
  return losses;
}

describe('the event file of a chief', () => {
  it('is read by TensorBoard: losses by step, steps per second, checkpoints, the graph', async () => {
    const directory = space.path();
    const model = smallModel();
    // Strings and numbers that the text format must escape or write in full.
    model.graph.asDefault(() => {
      constant(['Grüße "\\', "it's\n\u0000"], { name: 'texts' });
      constant([0.1, Number.POSITIVE_INFINITY, -0, 1e-30], { name: 'numbers' });
    });
    const losses = await monitored(model, directory, 7);
    const seen = await pythonSees(directory);
    const written = seen.scalars.loss ?? [];
    expect(written.map(([step]) => step)).toEqual([1, 3, 5, 7]);
    for (const [step, value] of written) expect(value).toBeCloseTo(losses[step - 1] as number, 6);
    expect(seen.scalars['global_step/sec']?.length).toBeGreaterThan(0);
    expect(seen.hasMetaGraph).toBe(true);
    expect(seen.statuses).toContainEqual(['START', 1, '']);
    expect(seen.statuses).toContainEqual(['CHECKPOINT', 0, 'model.ckpt-0']);
    expect(seen.statuses).toContainEqual(['CHECKPOINT', 7, 'model.ckpt-7']);
    expect(seen.isSameGraph).toBe(true);
    expect(seen.nodes).toContain('texts');
    expect(seen.operations).toBe(seen.nodes.length);
  });

  it('is written by a supervisor too', async () => {
    const logdir = space.path();
    const model = smallModel();
    const sv = new Supervisor({ graph: model.graph, logdir, saveSummariesSecs: 3600, log: () => {} });
    await sv.managedSession(undefined, async (session) => {
      for (let i = 0; i < 3; i++) await session.run(model.trainOp);
    });
    const seen = await pythonSees(logdir);
    expect(seen.isSameGraph).toBe(true);
    // Training continues while the first one is saved, so its step varies.
    expect(seen.statuses[0]?.slice(0, 2)).toEqual(['START', 0]);
    expect(seen.statuses).toContainEqual(['CHECKPOINT', 3, 'model.ckpt-3']);
    expect(seen.statuses.at(-1)?.slice(0, 2)).toEqual(['STOP', 3]);
    expect(seen.scalars.loss?.length).toBeGreaterThan(0);
  });
});
