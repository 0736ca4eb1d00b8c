/** Evaluation in one process: during training, and of checkpoints that another session saved. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { mean } from '../../../tensorflow/layers/metrics/index.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Session } from '../../../tensorflow/session/session.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Saver } from '../checkpoints/saver.js';
import { Scaffold } from '../core/scaffold.js';
import { EarlyStoppingHook, StopAtStepHook } from '../hooks/index.js';
import { MonitoredTrainingSession } from '../sessions/monitored-training-session.js';
import { type SmallModel, smallModel } from '../testing/small-model.js';
import { scalarsIn, Workspace } from '../testing/workspace.js';
import { BestCheckpoints } from './best-checkpoints.js';
import { evaluate } from './evaluate.js';
import { EvaluationHook } from './evaluation-hook.js';
import { evaluateRepeatedly } from './evaluator.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.make();
});
afterAll(() => space[Symbol.asyncDispose]());

const quiet = () => {};

/** The model, with its loss as a metric. */
function withMetric() {
  const model = smallModel();
  const loss = model.graph.asDefault(() => mean(model.loss));
  return { ...model, evaluation: { metrics: { loss }, batches: 2 } };
}

async function train(
  model: SmallModel,
  lastStep: number,
  checkpointDir: string,
  more: Partial<Parameters<typeof MonitoredTrainingSession>[0]> = {},
): Promise<void> {
  await MonitoredTrainingSession(
    {
      graph: model.graph,
      checkpointDir,
      log: quiet,
      ...more,
      hooks: [new StopAtStepHook({ lastStep }), ...(more.hooks ?? [])],
    },
    async (session) => {
      while (!session.shouldStop()) await session.run(model.trainOp);
    },
  );
}

describe('evaluate', () => {
  it('reads the input from start to end each time', async () => {
    const graph = new Graph();
    const { metric, initOp } = graph.asDefault(() => {
      const values = raw.tensorSliceDataset([Tensor.of([1, 2, 6])], { outputShapes: [[]] });
      const iterator = raw.iteratorV2({
        sharedName: 'evaluation',
        container: '',
        outputTypes: ['float32'],
        outputShapes: [[]],
      });
      const [next] = raw.iteratorGetNext(iterator, { outputTypes: ['float32'], outputShapes: [[]] });
      return { metric: mean(next!), initOp: raw.makeIterator(values, iterator) };
    });
    await using session = Session.open({ graph });
    const evaluation = { metrics: { mean: metric }, initOp };
    for (let time = 0; time < 2; time++) expect(await evaluate(session, evaluation)).toEqual({ mean: 3 });
    const { initOp: _, ...without } = evaluation;
    await expect(evaluate(session, without)).rejects.toThrow(/has no batch/);
  });

  it('feeds each batch', async () => {
    const graph = new Graph();
    const { x, metric } = graph.asDefault(() => {
      const x = raw.placeholder({ dtype: 'float32', shape: [], name: 'x' });
      return { x, metric: mean(x) };
    });
    await using session = Session.open({ graph });
    const feeds = (batch: number) => [[x, batch]] as const;
    expect(await evaluate(session, { metrics: { m: metric }, batches: 4, feeds })).toEqual({ m: 1.5 });
  });
});

describe('EvaluationHook', () => {
  it('evaluates every so many steps and at the end, as summaries, and keeps the best', async () => {
    const model = withMetric();
    const [checkpointDir, outputDir] = [space.path(), space.path()];
    const saver = new Saver({ maxToKeep: 1 });
    const steps: number[] = [];
    const hook = new EvaluationHook({
      evaluation: model.evaluation,
      everySteps: 4,
      outputDir,
      best: { policy: { metric: 'loss', mode: 'max' }, saver, checkpointDir },
      onResults: (_, step) => steps.push(step),
    });
    await train(model, 10, checkpointDir, { scaffold: new Scaffold({ saver }), hooks: [hook] });
    expect(steps).toEqual([4, 8, 10]);
    const written = await scalarsIn(outputDir, 'loss');
    expect(written.map(([step]) => step)).toEqual([4, 8, 10]);
    expect(hook.latest?.loss).toBeCloseTo(written.at(-1)?.[1] as number, 6);
    // The loss falls, so the maximum is that of the first evaluation: it stays, although only one is kept.
    const [best] = JSON.parse(await readFile(join(checkpointDir, 'best.json'), 'utf8')) as [{ step: number }];
    expect(best.step).toBe(4);
    await using session = Session.open({ graph: model.graph });
    await new Saver().restore(session, join(checkpointDir, 'model.ckpt-4'));
    expect((await session.run(model.globalStep)).number()).toBe(4);
  });

  it('keeps the best checkpoint of an earlier process before its first evaluation', async () => {
    const checkpointDir = space.path();
    const run = (lastStep: number, everySteps: number) => {
      const model = withMetric();
      const saver = new Saver({ maxToKeep: 1 });
      const hook = new EvaluationHook({
        evaluation: model.evaluation,
        everySteps,
        atEnd: false,
        best: { policy: { metric: 'loss', mode: 'max' }, saver, checkpointDir },
      });
      return train(model, lastStep, checkpointDir, { scaffold: new Scaffold({ saver }), hooks: [hook] });
    };
    await run(6, 4);
    await run(9, 1000);
    const { graph } = smallModel();
    await using session = Session.open({ graph });
    await new Saver().restore(session, join(checkpointDir, 'model.ckpt-4'));
    await expect(new Saver().restore(session, join(checkpointDir, 'model.ckpt-6'))).rejects.toThrow(
      /no checkpoint/,
    );
  });

  it('provides the metric of an early stopping hook', async () => {
    const model = withMetric();
    const evaluation = new EvaluationHook({ evaluation: model.evaluation, everySteps: 2 });
    const stopping = new EarlyStoppingHook({
      metric: () => evaluation.latest?.loss,
      mode: 'max',
      maxStepsWithoutImprovement: 6,
    });
    let last = 0;
    await MonitoredTrainingSession(
      {
        graph: model.graph,
        hooks: [evaluation, stopping, new StopAtStepHook({ lastStep: 100 })],
        log: quiet,
      },
      async (session) => {
        while (!session.shouldStop()) {
          await session.run(model.trainOp);
          last += 1;
        }
      },
    );
    expect(last).toBeLessThan(20);
  });
});

describe('an evaluator', () => {
  it('evaluates new checkpoints, and keeps a copy of the best', async () => {
    const [checkpointDir, outputDir, directory] = [space.path(), space.path(), space.path()];
    const watching = withMetric();
    await using session = Session.open({ graph: watching.graph });
    const steps: number[] = [];
    let arrived = () => {};
    const first = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const evaluating = evaluateRepeatedly({
      session,
      saver: new Saver(),
      checkpointDir,
      outputDir,
      evaluation: watching.evaluation,
      pollSecs: 0.02,
      timeoutSecs: 60,
      lastStep: 9,
      best: { policy: { metric: 'loss', mode: 'min' }, saver: new Saver({ maxToKeep: 1 }), directory },
      onResults: (_, step) => {
        steps.push(step);
        arrived();
      },
      log: quiet,
    });
    await train(smallModel(), 5, checkpointDir);
    await first;
    await train(smallModel(), 9, checkpointDir);
    const { results, step } = await evaluating;
    expect(step).toBe(9);
    expect(steps.at(-1)).toBe(9);
    expect((await scalarsIn(outputDir, 'loss')).map(([at]) => at)).toEqual(steps);
    const best = JSON.parse(await readFile(join(directory, 'best.json'), 'utf8')) as { value: number }[];
    expect(best).toEqual([{ step: 9, value: results?.loss, path: join(directory, 'model.ckpt-9') }]);
    await new Saver().restore(session, join(directory, 'model.ckpt-9'));
  });

  it('ends after a time without a new checkpoint, or by its signal', async () => {
    const model = withMetric();
    await using session = Session.open({ graph: model.graph });
    const common = {
      session,
      saver: new Saver(),
      checkpointDir: space.path(),
      evaluation: model.evaluation,
      pollSecs: 0.01,
      log: quiet,
    };
    expect((await evaluateRepeatedly({ ...common, timeoutSecs: 0.05 })).evaluations).toBe(0);
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 50);
    expect((await evaluateRepeatedly({ ...common, signal: stop.signal })).evaluations).toBe(0);
  });
});

describe('the best checkpoints', () => {
  it('are remembered by the next process, and never include NaN', async () => {
    const directory = space.path();
    const pinned: (readonly string[])[] = [];
    const saver = Object.assign(new Saver(), {
      pin: async (_: unknown, paths: readonly string[]) => void pinned.push(paths),
    });
    const policy = { metric: 'auc', mode: 'max', keep: 2 } as const;
    const make = () => new BestCheckpoints({ policy, saver, directory });
    await using session = Session.open({ graph: new Graph() });
    const consider = (best: BestCheckpoints, step: number, auc: number) =>
      best.consider(session, { step, results: { auc }, path: async () => `c-${step}` });
    const one = make();
    expect(await consider(one, 1, Number.NaN)).toBe(false);
    expect(await consider(one, 2, 0.5)).toBe(true);
    expect(await consider(one, 3, 0.4)).toBe(true);
    const other = make();
    expect(await consider(other, 4, 0.3)).toBe(false);
    expect(pinned.at(-1)).toEqual(['c-2', 'c-3']);
    expect(await consider(other, 5, 0.6)).toBe(true);
    expect(other.all.map(({ step }) => step)).toEqual([5, 2]);
    expect(pinned.at(-1)).toEqual(['c-5', 'c-2']);
    await expect(
      other.consider(session, { step: 6, results: { loss: 1 }, path: async () => 'x' }),
    ).rejects.toThrow(/no metric 'auc'; the metrics are loss/);
  });
});
