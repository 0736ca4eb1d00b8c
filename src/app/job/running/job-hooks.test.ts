/** Hooks, callbacks, the NaN guard and early stopping of a job, in one process. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readEvents } from '../../../tensorflow/formats/index.js';
import * as tf from '../../tf/index.js';
import type { SavedEvent, StepEvent } from '../definition/callbacks.js';
import { defineJob, type JobOptions, type TrainOptions } from '../definition/define-job.js';
import type { JobResult } from '../definition/job-result.js';
import { runInProcess } from './run-local.js';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-job-hooks-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A job whose variable is 1 − 0.1 · step. */
const jobOf = (
  train: Partial<TrainOptions>,
  options: Partial<Pick<JobOptions, 'hooks' | 'callbacks'>> = {},
) =>
  defineJob({
    name: 'hooked',
    model() {
      const w = tf.variable('w', { shape: [], initializer: 1 });
      return {
        loss: w.toOutput(),
        optimizer: tf.train.sgd(0.1),
        outputs: { constant: tf.constant(5), log: w.log() },
      };
    },
    train: { lastStep: 5, ...train },
    ...(options as object),
  });

/** The logarithm of a variable that becomes negative in its second step. */
const nanJob = (onNan?: TrainOptions['onNan']) =>
  defineJob({
    name: 'nan',
    model() {
      const w = tf.variable('w', { shape: [], initializer: 1 });
      return { loss: w.log(), optimizer: tf.train.sgd(2) };
    },
    train: { lastStep: 10, ...(onNan ? { onNan } : {}) },
  });

it('calls the hooks of the job, which watch its tensors and may end training', async () => {
  const seen: unknown[] = [];
  const job = jobOf(
    {},
    {
      hooks: ({ loss, outputs, globalStep, isChief }) => [
        {
          begin: ({ graph }) => void seen.push(graph === loss.graph, isChief),
          beforeRun: () => ({ fetches: [outputs.constant, globalStep] }),
          afterRun(context, { results }) {
            seen.push((results as tf.Tensor[])[0]?.number());
            if (seen.length === 5) context.requestStop();
          },
          end: () => void seen.push('end'),
        },
      ],
    },
  );
  const { step, interrupted } = await runInProcess(job, { dir });
  expect(seen).toEqual([true, true, 5, 5, 5, 'end']);
  expect([step, interrupted]).toEqual([3, false]);
});

describe('callbacks', () => {
  it('get every step, every checkpoint and the result', async () => {
    const steps: StepEvent[] = [];
    const saved: SavedEvent[] = [];
    const ended: JobResult[] = [];
    const callbacks = {
      onStep: (event: StepEvent) => void steps.push(event),
      onSave: (event: SavedEvent) => void saved.push(event),
      onEnd: (result: JobResult) => void ended.push(result),
    };
    const result = await runInProcess(jobOf({ checkpoint: { everySecs: 3600 } }, { callbacks }), { dir });
    expect(steps.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5]);
    expect(steps.at(-1)?.loss).toBeCloseTo(0.6);
    expect(saved.at(-1)?.step).toBe(5);
    for (const { path } of saved) expect(existsSync(`${path}.index`)).toBe(true);
    expect(ended).toEqual([result]);
  });

  it.each(['onStep', 'onSave', 'onEnd'] as const)('fail the job with an error in %s', async (name) => {
    const callbacks = {
      [name]: () => {
        throw new Error('a callback failed');
      },
    };
    const running = runInProcess(jobOf({ checkpoint: { everySecs: 3600 } }, { callbacks }), { dir });
    await expect(running).rejects.toThrow('a callback failed');
  });
});

describe('a loss that is NaN', () => {
  it('fails the job', async () => {
    await expect(runInProcess(nanJob(), { dir })).rejects.toMatchObject({
      code: 'SHOAL_NAN',
      message: expect.stringMatching(/^The loss \S+ is NaN at step \d+: the model has diverged$/),
    });
  });

  it("ends training with onNan: 'stop'", async () => {
    const lines: string[] = [];
    const { step, interrupted } = await runInProcess(nanJob('stop'), {
      dir,
      log: (line) => lines.push(line),
    });
    expect(step).toBeLessThan(10);
    expect(interrupted).toBe(false);
    expect(lines.join('\n')).toMatch(/is NaN.*stopping training/);
  });

  it("is ignored with onNan: 'ignore'", async () => {
    expect((await runInProcess(nanJob('ignore'), { dir })).step).toBe(10);
  });

  it('is handled in no other way', () => {
    expect(() => nanJob('skip' as never)).toThrow(/train\.onNan/);
  });
});

describe('early stopping', () => {
  it('ends training when an output has not improved', async () => {
    const earlyStopping = { output: 'constant', maxStepsWithoutImprovement: 3 };
    const { step } = await runInProcess(jobOf({ lastStep: 100, earlyStopping }), { dir });
    // A step reads the global step before or after its own increment.
    expect(step).toBeGreaterThanOrEqual(3);
    expect(step).toBeLessThan(6);
  });

  it('watches the loss by default', async () => {
    const earlyStopping = { maxStepsWithoutImprovement: 3 };
    expect((await runInProcess(jobOf({ lastStep: 10, earlyStopping }), { dir })).step).toBe(10);
  });

  it('is refused for an unknown output', async () => {
    const earlyStopping = { output: 'accuracy', maxStepsWithoutImprovement: 3 };
    await expect(runInProcess(jobOf({ earlyStopping }), { dir })).rejects.toMatchObject({
      message: expect.stringContaining("'accuracy', which is not an output"),
      hint: expect.stringContaining('constant, log'),
    });
  });
});

it('writes the loss and the learning rate of a model without summaries, if the job sets train.summaries', async () => {
  await runInProcess(jobOf({ summaries: { everySteps: 1 } }), { dir });
  const [file] = readdirSync(join(dir, 'summaries'));
  const tags = new Set<string>();
  for await (const { what } of readEvents(join(dir, 'summaries', file as string)))
    if (what.case === 'summary') for (const { tag } of what.value.value) tags.add(tag);
  expect([...tags]).toEqual(expect.arrayContaining(['loss', 'learning_rate']));
});
