/** A job in one process that ends by the metrics of its evaluation, and whose learning rate they reduce. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import * as metrics from '../../../tensorflow/layers/metrics/index.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import { sgd } from '../../../tensorflow/optimizers/index.js';
import { variable } from '../../../tensorflow/variables/variable-scope.js';
import { fromTensorSlices } from '../../../training/input/dataset/sources.js';
import { versionsOf } from '../../../training/saved-model/writing/versions.js';
import { defineJob, type JobOptions, type JobOutputs, type TrainOptions } from '../definition/define-job.js';
import { runInProcess } from '../running/run-local.js';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-early-stopping-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const PEAK = 30;

/** Each step adds the learning rate, 1, to the variable; the score of the evaluation is best at 30. */
const peakedJob = (train: Partial<TrainOptions>, more: object = {}) =>
  defineJob({
    name: 'peaked',
    input: () => ({ x: constant([1]) }),
    model({ input: { x } }: { input: Record<string, { toOutput(): ReturnType<typeof constant> }> }) {
      const a = variable('a', { initializer: 0 });
      const y = x!.toOutput().mul(0).add(a);
      return { loss: a.neg(), optimizer: sgd(1), outputs: { a, y } };
    },
    evaluate: {
      input: () => fromTensorSlices({ x: [1, 2, 3, 4] }).batch(2),
      metrics: ({ outputs }: { outputs: JobOutputs }) => ({
        score: metrics.mean(outputs.a!.toOutput().sub(PEAK).square().neg()),
        broken: metrics.mean(outputs.a!.toOutput().mul(Number.NaN)),
      }),
      everySteps: 10,
    },
    export: {},
    ...more,
    train: { lastStep: 400, checkpoint: { everySteps: 1000, keep: 1 }, ...train },
  } as unknown as JobOptions);

async function run(job: ReturnType<typeof peakedJob>) {
  const lines: string[] = [];
  const result = await runInProcess(job, { dir, log: (line) => lines.push(line) });
  return { result, lines, text: lines.join('\n') };
}

const STOPPING = { metric: 'eval/score', mode: 'max', patience: 2 } as const;
const scoreOf = (step: number) => 0 - (step - PEAK) ** 2;

/** The evaluated steps, and the best of them. */
function evaluated(lines: readonly string[]) {
  const steps = lines.flatMap((line) => {
    const [, step] = /^evaluation of step (\d+): score/.exec(line) ?? [];
    return step === undefined ? [] : [Number(step)];
  });
  return { steps, best: steps.toSorted((one, other) => scoreOf(other) - scoreOf(one))[0]! };
}

describe('early stopping by a metric of the evaluation, in one process', () => {
  it('ends with the best checkpoint, which is exported and evaluated', async () => {
    const job = peakedJob({ earlyStopping: { ...STOPPING, restoreBest: true } });
    const { result, lines, text } = await run(job);
    const { steps, best } = evaluated(lines);
    // Training waits for each evaluation.
    expect(steps, text).toEqual([10, 20, 30, 40, 50]);
    expect(result.step, text).toBe(50);
    expect(text).toContain(
      `eval/score: no improvement on ${scoreOf(best)}, of step ${best}, in 2 evaluations`,
    );
    expect(result.interrupted).toBe(false);
    expect(result.outputs.a).toBe(best);
    expect(result.evaluation?.score).toBe(scoreOf(best));
    const [version] = await versionsOf('peaked', join(dir, 'export'));
    expect(version?.origin.step).toBe(best);
    expect(readdirSync(join(dir, 'checkpoints'))).toContain(`model.ckpt-${best}.index`);

    // The job is finished: the same run again makes no step.
    const again = await run(job);
    expect(again.result.ownSteps, again.text).toBe(0);
    expect(again.result.outputs.a).toBe(best);
    // With another last step it trains on from its best checkpoint, until its patience ends again.
    const further = await run(
      peakedJob({ lastStep: 500, earlyStopping: { ...STOPPING, restoreBest: true } }),
    );
    expect(further.result.ownSteps, further.text).toBeGreaterThan(0);
    expect(further.result.step).toBeLessThan(500);
  });

  it('saves each evaluated checkpoint once, as often as the job says', async () => {
    const earlyStopping = { ...STOPPING, patience: 100, restoreBest: true };
    const train = { lastStep: 45, checkpoint: { everySteps: 10, keep: 100 }, earlyStopping };
    const { lines, text } = await run(peakedJob(train));
    const saved = lines.flatMap((line) => /^saved model\.ckpt-(\d+)/.exec(line)?.[1] ?? []);
    expect(saved.slice(1), text).toEqual(['10', '20', '30', '40', '45', '30']);
  });

  it('ends with the last step without restoreBest, and needs no checkpoints', async () => {
    const { result, text } = await run(
      peakedJob({ checkpoint: undefined, earlyStopping: STOPPING } as never),
    );
    expect(result.step, text).toBeLessThan(400);
    expect(result.outputs.a).toBe(result.step);
    expect(result.evaluation?.score).toBe(scoreOf(result.step));
  });

  it('ends with the best checkpoint at the last step too', async () => {
    const { result, lines, text } = await run(
      peakedJob({ lastStep: 60, earlyStopping: { ...STOPPING, patience: 100, restoreBest: true } }),
    );
    const { steps, best } = evaluated(lines);
    expect(result.step, text).toBe(60);
    expect(steps).toContain(60);
    expect(result.outputs.a).toBe(best);
  });

  it('counts NaN as no improvement, with one warning', async () => {
    const { result, lines, text } = await run(
      peakedJob({ earlyStopping: { metric: 'eval/broken', patience: 3 } }),
    );
    expect(result.step, text).toBeLessThan(400);
    expect(lines.filter((line) => line.includes("the metric 'broken' of step"))).toHaveLength(1);
  });

  it('an unknown metric is an error that lists the metrics', async () => {
    await expect(run(peakedJob({ earlyStopping: { metric: 'eval/scroe', patience: 1 } }))).rejects.toThrow(
      described(/'eval\/scroe'.*\n.*The metrics are eval\/score, eval\/broken/),
    );
  });
});

describe('a learning rate that is reduced', () => {
  it('by a metric of the evaluation, down to its least value', async () => {
    const reduceLearningRate = { ...STOPPING, factor: 0.5, patience: 1, min: 0.25 };
    const { result, lines, text } = await run(peakedJob({ lastStep: 120, reduceLearningRate } as never));
    expect(lines, text).toContain('the learning rate is 0.5');
    expect(lines, text).toContain('the learning rate is 0.25');
    expect(
      lines.filter((line) => line.startsWith('the learning rate is')),
      text,
    ).toHaveLength(2);
    expect(result.outputs.a).toBeLessThan(120);
    // The next run begins with the reduced rate.
    const further = await run(peakedJob({ lastStep: 130, reduceLearningRate } as never));
    expect(further.result.outputs.a).toBeCloseTo((result.outputs.a as number) + 10 * 0.25, 4);
  });

  it('by the loss of the batch', async () => {
    const { result, text } = await run(
      peakedJob({
        lastStep: 20,
        reduceLearningRate: { metric: 'loss', mode: 'max', patience: 10, factor: 0.5 },
      }),
    );
    // The loss falls, so that no value is better than the first.
    expect(text).toContain('the learning rate is 0.5');
    expect(result.outputs.a).toBeLessThan(20);
  });
});
