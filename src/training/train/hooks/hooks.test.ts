/** Hooks in real sessions of one process. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPython } from '../../../../test/python.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { placeholder } from '../../../tensorflow/ops/index.js';
import { cast } from '../../../tensorflow/ops/math.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Scaffold } from '../core/scaffold.js';
import {
  type MonitoredTrainingOptions,
  MonitoredTrainingSession,
} from '../sessions/monitored-training-session.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { JsonSaver } from '../testing/json-saver.js';
import { type SmallModel, smallModel } from '../testing/small-model.js';
import { eventsIn, scalarsIn, Workspace } from '../testing/workspace.js';
import {
  CheckpointSaverHook,
  type CheckpointSaverListener,
  EarlyStoppingHook,
  FeedFnHook,
  FinalOpsHook,
  GlobalStepWaiterHook,
  LoggingTensorHook,
  NanTensorHook,
  ProfilerHook,
  SecondOrStepTimer,
  type SessionRunHook,
  StepCounterHook,
  StopAtStepHook,
  SummarySaverHook,
  type TraceEvent,
} from './index.js';
import { SessionRunContext } from './session-run-hook.js';
import { SummaryWriters } from './summary-writers.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.make();
});
afterAll(() => space[Symbol.asyncDispose]());

interface Trained {
  readonly runs: number;
  readonly lines: readonly string[];
}

/** Trains until a hook requests the stop. */
async function train(
  model: SmallModel,
  hooks: readonly SessionRunHook[],
  more: Partial<MonitoredTrainingOptions> & { readonly eachRun?: () => void } = {},
): Promise<Trained> {
  const lines: string[] = [];
  let runs = 0;
  const { eachRun, ...options } = more;
  await MonitoredTrainingSession(
    { graph: model.graph, hooks, log: (line) => lines.push(line), ...options },
    async (session) => {
      while (!session.shouldStop()) {
        eachRun?.();
        await session.run(model.trainOp);
        runs += 1;
      }
    },
  );
  return { runs, lines };
}

const stopAt = (lastStep: number) => new StopAtStepHook({ lastStep });
const stepsOf = (paths: readonly string[]) => paths.map((path) => Number(path.replace(/.*-/, '')));

describe('SecondOrStepTimer', () => {
  it('triggers at once, then by steps', () => {
    const timer = new SecondOrStepTimer({ everySteps: 3 });
    expect(timer.shouldTriggerForStep(5)).toBe(true);
    expect(timer.update(5)).toBeUndefined();
    expect([5, 6, 7, 8].map((step) => timer.shouldTriggerForStep(step))).toEqual([false, false, false, true]);
    expect(timer.update(9)?.steps).toBe(4);
  });

  it('triggers by the given clock, and once per step at most', () => {
    let now = 0;
    const timer = new SecondOrStepTimer({ everySecs: 2, now: () => now });
    timer.update(1);
    now = 1999;
    expect(timer.shouldTriggerForStep(2)).toBe(false);
    now = 2000;
    expect(timer.shouldTriggerForStep(2)).toBe(true);
    expect(timer.shouldTriggerForStep(1)).toBe(false);
    expect(timer.update(3)).toEqual({ secs: 2, steps: 2 });
  });

  it('triggers when a restore has moved the step far back', () => {
    const timer = new SecondOrStepTimer({ everySteps: 10 });
    timer.update(100);
    expect(timer.shouldTriggerForStep(95)).toBe(false);
    expect(timer.shouldTriggerForStep(50)).toBe(true);
  });

  it('takes either seconds or steps, above 0', () => {
    expect(() => new SecondOrStepTimer({})).toThrow(/either/);
    expect(() => new SecondOrStepTimer({ everySecs: 1, everySteps: 1 })).toThrow(/set one of them/);
    expect(() => new SecondOrStepTimer({ everySteps: 0 })).toThrow(/above 0/);
  });
});

describe('StopAtStepHook', () => {
  it('stops after numSteps more steps', async () => {
    expect((await train(smallModel(), [new StopAtStepHook({ numSteps: 4 })])).runs).toBe(4);
  });

  it('takes exactly one of numSteps and lastStep', () => {
    expect(() => new StopAtStepHook({})).toThrow(/exactly one/);
    expect(() => new StopAtStepHook({ lastStep: 1.5 })).toThrow(/integer/);
  });
});

describe('CheckpointSaverHook', () => {
  it('saves by the clock, at the start and at the end', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    let now = 0;
    const hook = new CheckpointSaverHook({
      checkpointDir: space.path(),
      saver,
      saveSecs: 10,
      now: () => now,
    });
    await train(model, [hook, stopAt(6)], {
      eachRun: () => {
        now += 4000;
      },
    });
    // After 12 s, that is three runs, and 12 s later, which is the end.
    expect(stepsOf(saver.saved)).toEqual([0, 3, 6]);
    expect(hook.savedStep).toBe(6);
  });

  it('logs and retries a failed save, and never stops training', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    saver.failures = 2;
    let now = 0;
    const hook = new CheckpointSaverHook({
      checkpointDir: space.path(),
      saver,
      saveSteps: 100,
      now: () => now,
    });
    const { lines, runs } = await train(model, [hook, stopAt(6)], {
      eachRun: () => {
        now += 2500;
      },
    });
    expect(runs).toBe(6);
    expect(lines.filter((line) => /saving .* failed/.test(line))).toHaveLength(2);
    // The first attempt is at step 0, the second after at least a second, the third after up to two more.
    expect(stepsOf(saver.saved)).toEqual([2, 6]);
  });

  it('logs that the last checkpoint could not be saved, and fails', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    saver.failures = 100;
    const hook = new CheckpointSaverHook({
      checkpointDir: space.path(),
      saver,
      saveSteps: 100,
      lastAttempts: 2,
    });
    const lines: string[] = [];
    const log = (line: string) => void lines.push(line);
    await expect(train(model, [hook, stopAt(2)], { log })).rejects.toMatchObject({ code: 'ENOENT' });
    expect(lines.at(-1)).toMatch(/the last checkpoint, of step 2, could not be saved/);
  });

  it('calls its listeners, which may stop training', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    const calls: string[] = [];
    const listener: CheckpointSaverListener = {
      begin: () => void calls.push('begin'),
      beforeSave: (_, step) => void calls.push(`before ${step}`),
      afterSave: (_, step) => {
        calls.push(`after ${step}`);
        return step === 4;
      },
      end: (_, step) => void calls.push(`end ${step}`),
    };
    const hook = new CheckpointSaverHook({
      checkpointDir: space.path(),
      saver,
      saveSteps: 2,
      listeners: [listener],
    });
    await train(model, [hook]);
    const around = [0, 2, 4].flatMap((step) => [`before ${step}`, `after ${step}`]);
    expect(calls).toEqual(['begin', ...around, 'end 4']);
  });

  it('in the background does not delay training, and ends before training does', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const listener: CheckpointSaverListener = { beforeSave: (_, step) => (step === 0 ? held : undefined) };
    let runs = 0;
    const hook = new CheckpointSaverHook({
      checkpointDir: space.path(),
      saver,
      saveSteps: 1,
      background: true,
      listeners: [listener],
    });
    await train(model, [hook, stopAt(8)], {
      eachRun: () => {
        if (++runs === 8) release();
      },
    });
    // The first save was delayed for seven steps, and no other started meanwhile.
    expect(stepsOf(saver.saved)[0]).toBeGreaterThanOrEqual(7);
    expect(stepsOf(saver.saved).at(-1)).toBe(8);
  });
});

describe('SummarySaverHook', () => {
  it('writes the first step and then by the clock', async () => {
    const model = smallModel();
    const outputDir = space.path();
    let now = 0;
    const scaffold = new Scaffold();
    const hook = new SummarySaverHook({ scaffold, outputDir, saveSecs: 10, now: () => now });
    await train(model, [hook, stopAt(8)], {
      scaffold,
      eachRun: () => {
        now += 4000;
      },
    });
    expect((await scalarsIn(outputDir, 'loss')).map(([step]) => step)).toEqual([1, 4, 7]);
  });
});

describe('LoggingTensorHook', () => {
  it('logs every so many runs, and at the end', async () => {
    const model = smallModel();
    const lines: string[] = [];
    const hook = new LoggingTensorHook({
      tensors: { step: model.globalStep, loss: model.loss },
      everyNIter: 2,
      atEnd: true,
      log: (line) => lines.push(line),
    });
    await train(model, [hook, stopAt(4)]);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^step = \d, loss = 0\.\d+$/);
    expect(lines[1]).toMatch(/^step = \d, loss = 0\.\d+ \(\d+\.\d{3} sec\)$/);
    expect(lines[2]).toMatch(/^step = 4, /);
  });

  it('takes tensor names, and a formatter', async () => {
    const model = smallModel();
    const lines: string[] = [];
    const hook = new LoggingTensorHook({
      tensors: ['w/Read/ReadVariableOp:0'],
      everyNIter: 10,
      formatter: (values) => Object.keys(values).join(),
      log: (line) => lines.push(line),
    });
    await train(model, [hook, stopAt(2)]);
    expect(lines).toEqual(['w/Read/ReadVariableOp:0']);
  });
});

describe('NanTensorHook', () => {
  const diverging = () => {
    const model = smallModel();
    const nan = model.graph.asDefault(() => cast(model.globalStep, 'float32').sub(100).log());
    return { ...model, nan: nan as Output };
  };

  it('fails', async () => {
    const model = diverging();
    await expect(train(model, [new NanTensorHook(model.nan), stopAt(9)])).rejects.toThrow(/has diverged/);
  });

  it('names the loss, the step and the task', async () => {
    const { graph, nan } = diverging();
    const hook = new NanTensorHook(nan);
    const task = '/job:worker/task:1';
    hook.begin({ graph, task, log: () => {}, writers: new SummaryWriters() });
    const session = { graph, run: async () => Tensor.of(7n) } as unknown as TrainingRunner;
    const context = new SessionRunContext(session, {}, new AbortController().signal);
    const failure = hook.afterRun(context, { results: Tensor.of(Number.NaN), metadata: undefined });
    await expect(failure).rejects.toMatchObject({
      task,
      message: `The loss ${nan.name} is NaN at step 7 on ${task}: the model has diverged`,
    });
  });

  it('stops training with failOnNanLoss: false', async () => {
    const model = diverging();
    const { runs, lines } = await train(model, [
      new NanTensorHook(model.nan, { failOnNanLoss: false }),
      stopAt(9),
    ]);
    expect(runs).toBeLessThan(9);
    expect(lines.at(-1)).toMatch(/stopping training/);
  });
});

describe('GlobalStepWaiterHook', () => {
  it('waits until others have made steps', async () => {
    const model = smallModel();
    const ahead = model.graph.asDefault(() => model.globalStep.assign(5n));
    const lines: string[] = [];
    await using session = await MonitoredTrainingSession({
      graph: model.graph,
      hooks: [new GlobalStepWaiterHook(5, { pollMs: 5 })],
      log: (line) => lines.push(line),
    });
    let made = false;
    const run = session.run(model.trainOp).then(() => {
      made = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(made).toBe(false);
    await session.rawSession.run(ahead);
    await run;
    expect(lines[0]).toMatch(/waiting for global step 5 .* it is 0/);
  });
});

describe('FinalOpsHook', () => {
  it('keeps the values of its ops at the end', async () => {
    const model = smallModel();
    const hook = new FinalOpsHook({ step: model.globalStep });
    expect(hook.finalOpsValues).toBeUndefined();
    await train(model, [hook, stopAt(3)]);
    expect(hook.finalOpsValues?.step.number()).toBe(3);
  });
});

describe('FeedFnHook', () => {
  it('feeds every run', async () => {
    const model = smallModel();
    const x = model.graph.asDefault(() => placeholder({ shape: [], name: 'x' }));
    let fed = 0;
    const seen: number[] = [];
    const look: SessionRunHook = {
      beforeRun: () => ({ fetches: x }),
      afterRun: (_, { results }) => void seen.push((results as { number(): number }).number()),
    };
    await train(model, [new FeedFnHook(() => ({ x: ++fed })), look, stopAt(3)]);
    expect(seen).toEqual([1, 2, 3]);
  });
});

describe('ProfilerHook', () => {
  it('writes traces for the trace viewer and for TensorBoard', async () => {
    const model = smallModel();
    const outputDir = space.path();
    await train(model, [new ProfilerHook({ saveSteps: 3, outputDir }), stopAt(8)]);
    const files = (await readdir(outputDir)).filter((name) => name.startsWith('timeline-')).sort();
    expect(files.length).toBeGreaterThanOrEqual(2);
    const { traceEvents } = JSON.parse(await readFile(join(outputDir, files[0] as string), 'utf8')) as {
      traceEvents: TraceEvent[];
    };
    expect(traceEvents.some(({ ph, name }) => ph === 'M' && name === 'process_name')).toBe(true);
    const ops = traceEvents.filter(({ ph }) => ph === 'X');
    expect(ops.map(({ args }) => args.name)).toContain('w/Read/ReadVariableOp');
    expect(ops.every(({ ts, dur }) => (ts as number) > 0 && (dur as number) > 0)).toBe(true);
    const tags = (await eventsIn(outputDir)).flatMap(({ what }) =>
      what.case === 'taggedRunMetadata' ? [what.value.tag] : [],
    );
    expect(tags).toEqual(files.map((file) => file.replace(/timeline-(\d+)\.json/, 'step_$1')));
  });
});

describe('EarlyStoppingHook', () => {
  it('stops training when the metric has not improved for a number of steps', async () => {
    const model = smallModel();
    const values = [5, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3];
    let at = 0;
    const hook = new EarlyStoppingHook({ metric: () => values[at++], maxStepsWithoutImprovement: 4 });
    const { runs, lines } = await train(model, [hook, stopAt(50)]);
    expect(hook.best?.value).toBe(3);
    // The step that a run reads may be from before or after its own update.
    expect(Math.abs(runs - 9)).toBeLessThanOrEqual(1);
    expect(lines.at(-1)).toMatch(/no improvement on 3, of step \d, for \d steps: stopping training/);
  });

  it('watches a tensor, in either direction, and does not stop before minSteps', async () => {
    const model = smallModel();
    const falling = model.graph.asDefault(() => cast(model.globalStep, 'float32').neg());
    const metric = falling as Output;
    const early = new EarlyStoppingHook({ metric, mode: 'max', maxStepsWithoutImprovement: 2 });
    expect((await train(model, [early, stopAt(50)])).runs).toBeLessThan(10);
    const again = smallModel();
    const late = new EarlyStoppingHook({
      metric: again.loss,
      mode: 'max',
      minSteps: 20,
      maxStepsWithoutImprovement: 2,
    });
    expect((await train(again, [late, stopAt(50)])).runs).toBeGreaterThanOrEqual(20);
  });
});

interface Seen {
  readonly scalars: Record<string, [step: number, value: number][]>;
  readonly graphNodes: string[];
  readonly hasMetaGraph: boolean;
  readonly runMetadata: string[];
}

describe('the event file of a session with all hooks', () => {
  it('is read by TensorBoard', { timeout: 300_000 }, async () => {
    const model = smallModel();
    const dir = space.path();
    const scaffold = new Scaffold({ saver: new JsonSaver(model.graph) });
    await train(
      model,
      [
        new CheckpointSaverHook({ checkpointDir: dir, scaffold, saveSteps: 5 }),
        new SummarySaverHook({ scaffold, outputDir: dir, saveSteps: 5 }),
        new StepCounterHook({ outputDir: dir, everyNSteps: 5 }),
        new ProfilerHook({ outputDir: dir, saveSteps: 5 }),
        stopAt(11),
      ],
      { scaffold },
    );
    const program = new URL('../../../tensorflow/summary/testing/read-events.py', import.meta.url);
    const [seen] = await askPython<[Seen]>(program, null, [dir]);
    expect(seen.scalars.loss?.map(([step]) => step)).toEqual([1, 6, 11]);
    expect(seen.scalars['global_step/sec']?.map(([step]) => step)).toEqual([6, 11]);
    expect(seen.graphNodes).toContain('w/Read/ReadVariableOp');
    expect(seen.hasMetaGraph).toBe(true);
    expect(seen.runMetadata.length).toBeGreaterThan(0);
  });
});
