/** A job that is evaluated by the process that trains it. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import { readEvents } from '../../../tensorflow/formats/events/event-reader.js';
import * as metrics from '../../../tensorflow/layers/metrics/index.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import { sgd } from '../../../tensorflow/optimizers/index.js';
import { variable } from '../../../tensorflow/variables/variable-scope.js';
import { fromTensorSlices } from '../../../training/input/dataset/sources.js';
import { versionsOf } from '../../../training/saved-model/writing/versions.js';
import {
  defineJob,
  type EvaluateOptions,
  type JobOptions,
  type JobOutputs,
} from '../definition/define-job.js';
import { describeResult } from '../running/describe-outputs.js';
import { runInProcess } from '../running/run-local.js';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-local-evaluation-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const points = () => fromTensorSlices({ x: [1, 2, 3, 4] }).batch(2);
/** Each step adds 1 to each of the two variables: their values show the step. */
const countingJob = (evaluate: object = {}, more: Partial<JobOptions> = {}) =>
  defineJob({
    name: 'counting',
    input: () => ({ x: constant([1]) }),
    model({ input: { x } }) {
      const a = variable('a', { initializer: 0 });
      const b = variable('b', { initializer: 0 });
      const y = x!.toOutput().mul(0).add(a);
      return { loss: a.add(b).neg(), optimizer: sgd(1), outputs: { a, b, y } };
    },
    evaluate: {
      input: points,
      metrics: ({ outputs }: { outputs: JobOutputs }) => ({
        a: metrics.mean(outputs.a!.toOutput()),
        b: metrics.mean(outputs.b!.toOutput()),
      }),
      ...evaluate,
    } as EvaluateOptions,
    train: { lastStep: 40 },
    ...more,
  } as JobOptions);

async function run(job: ReturnType<typeof countingJob>, signal?: AbortSignal) {
  const lines: string[] = [];
  const result = await runInProcess(job, { dir, log: (line) => lines.push(line), ...(signal && { signal }) });
  return { result, lines };
}
const evaluatedSteps = (lines: readonly string[]) =>
  lines.flatMap((line) => {
    const [, step, a, b] = /^evaluation of step (\d+): a = (\d+), b = (\d+)$/.exec(line) ?? [];
    return step === undefined ? [] : [[Number(step), Number(a), Number(b)]];
  });

describe('a job in one process', () => {
  it('is evaluated every so many steps and at the end, between steps', async () => {
    const { result, lines } = await run(
      countingJob({ everySteps: 10 }, { train: { lastStep: 100, inflight: 4 } }),
    );
    const found = evaluatedSteps(lines);
    // Steps in flight are finished first.
    expect(found.length).toBeGreaterThanOrEqual(100 / 14);
    // All values are of the same step.
    for (const [step, a, b] of found) expect([a, b]).toEqual([step, step]);
    expect(found.at(-1)![0]).toBe(result.step);
    expect(result.evaluation).toEqual({ a: result.step, b: result.step });
    expect(describeResult(result)).toContain(`evaluation: a = ${result.step}, b = ${result.step}`);
    const written: number[] = [];
    for (const file of readdirSync(join(dir, 'eval')))
      for await (const event of readEvents(join(dir, 'eval', file)))
        if (event.what.case === 'summary') written.push(Number(event.step));
    expect([...new Set(written)]).toEqual(found.map(([step]) => step));
  });

  it('is evaluated as often as it is saved, or once if it is short', async () => {
    const saved = await run(countingJob({}, { train: { lastStep: 90, checkpoint: { everySteps: 20 } } }));
    expect(evaluatedSteps(saved.lines).map(([step]) => step)).toEqual([20, 40, 60, 80, 90]);
    rmSync(dir, { recursive: true });
    const short = await run(countingJob());
    expect(evaluatedSteps(short.lines)).toEqual([[40, 40, 40]]);
  });

  it('keeps the best checkpoint, and exports it', async () => {
    const best = { metric: 'a', mode: 'max' as const };
    const job = countingJob({ everySteps: 10, best }, { export: { best, signatures: undefined } as never });
    const { lines } = await run(job);
    expect(lines.join('\n')).toMatch(/new best a: 40 at step 40; kept as \S+best\/model\.ckpt-40/);
    const [listed] = JSON.parse(readFileSync(join(dir, 'best/best.json'), 'utf8'));
    expect(listed).toMatchObject({ step: 40, value: 40 });
    const [exported] = await versionsOf('counting', join(dir, 'export/best'));
    expect(exported?.origin).toMatchObject({ step: 40, metric: { name: 'a', value: 40 } });
  });

  it('is not evaluated at the end when it is stopped', async () => {
    const stop = new AbortController();
    const hooks = () => [{ afterRun: () => stop.abort() }];
    const job = countingJob({}, { train: { lastStep: 1_000_000_000 }, hooks });
    const { result, lines } = await run(job, stop.signal);
    expect(result.interrupted).toBe(true);
    expect(result.evaluation).toBeUndefined();
    expect(evaluatedSteps(lines)).toEqual([]);
  });

  it.each([
    ['an unknown metric', { best: { metric: 'c', mode: 'max' } }, /no metric 'c'; the metrics are a, b/],
    [
      'a metric that is a tensor',
      { metrics: ({ outputs }: { outputs: JobOutputs }) => ({ c: outputs.a }) },
      /evaluate\.metrics of job 'counting' returns no metric as 'c'/,
    ],
    ['an empty input', { input: () => points().take(0) }, /input of the evaluation has no batch/],
    [
      'an input without names',
      { input: () => constant([1]) },
      /evaluate\.input of job 'counting' returns values/,
    ],
    [
      'variables of its own',
      { metrics: () => ({ c: metrics.mean(variable('own', { initializer: 0 }).toOutput()) }) },
      /variables that its training does not have: 'own'/,
    ],
  ])('fails with %s', async (_, evaluate, message) => {
    await expect(run(countingJob({ everySteps: 10, ...evaluate }))).rejects.toThrow(message);
  });

  it('saves and exports at the same steps, and keeps the best of several', async () => {
    const best = { metric: 'a', mode: 'min' as const, keep: 2 };
    const job = countingJob(
      { everySteps: 5, best },
      { train: { lastStep: 400, checkpoint: { everySteps: 1000 } } },
    );
    await run(job);
    const listed = JSON.parse(readFileSync(join(dir, 'best/best.json'), 'utf8')) as { path: string }[];
    expect(listed).toHaveLength(2);
    expect(readdirSync(join(dir, 'best')).filter((name) => name.endsWith('.index'))).toHaveLength(2);
    for (const { path } of listed) expect(existsSync(`${path}.index`), path).toBe(true);
    // Again: the same state is not kept twice.
    await run(job);
    expect(JSON.parse(readFileSync(join(dir, 'best/best.json'), 'utf8'))).toEqual(listed);
  });

  it('stops during an evaluation without an end', async () => {
    const stop = new AbortController();
    const endless = { everySteps: 5, input: () => points().repeat() };
    let made = 0;
    const hooks = () => [
      {
        afterRun: () => {
          made += 1;
          if (made === 5) setTimeout(() => stop.abort(), 300);
        },
      },
    ];
    const job = countingJob(endless, { train: { lastStep: 1_000_000_000 }, hooks });
    expect((await run(job, stop.signal)).result).toMatchObject({ interrupted: true, step: 5 });
  });

  it('saves a step once while it is evaluated, and fails in the evaluation if a callback fails', async () => {
    const saved: number[] = [];
    const train = { lastStep: 40, checkpoint: { everySecs: 0.1 } };
    const onSave = ({ step }: { step: number }) => {
      saved.push(step);
      if (step === 5) setTimeout(() => stop.abort(), 1000);
    };
    const stop = new AbortController();
    const endless = { everySteps: 5, input: () => points().repeat() };
    await run(countingJob(endless, { train, callbacks: { onSave } }), stop.signal);
    expect(saved.filter((step) => step === 5)).toHaveLength(1);
    const failing = ({ step }: { step: number }) => {
      if (step > 5) throw new Error('no space for the record');
    };
    const again = run(countingJob(endless, { train, callbacks: { onSave: failing } }));
    await expect(again).rejects.toThrow(/no space for the record/);
  });

  it('is trained, saved and exported although its results cannot be written, or the last evaluation fails', async () => {
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, 'eval'), '');
    writeFileSync(join(dir, 'best'), '');
    const best = { metric: 'a', mode: 'max' as const };
    const { result, lines } = await run(countingJob({ best }, { export: {} as never }));
    expect(result).toMatchObject({ interrupted: false, evaluation: { a: 40 } });
    expect(lines.join('\n')).toMatch(
      /the results of step 40 could not be kept[\s\S]*the best checkpoint of step 40/,
    );
    rmSync(dir, { recursive: true });
    const failing = countingJob(
      { input: () => fromTensorSlices({ x: [1, 2] }).take(0) },
      { export: {} as never },
    );
    await expect(run(failing)).rejects.toThrow(
      /An evaluation failed: The input of the evaluation has no batch/,
    );
    expect(await versionsOf('counting', join(dir, 'export'))).toHaveLength(1);
  });

  it('fails during training when an evaluation has a mistake', async () => {
    const job = countingJob(
      { everySteps: 10, best: { metric: 'c', mode: 'max' } },
      { train: { lastStep: 1_000_000_000 } },
    );
    await expect(run(job)).rejects.toThrow(/no metric 'c'/);
  });
});

it.each([
  [{ everySteps: 0 }, /evaluate\.everySteps of job 'counting' must be above 0, it is 0/],
  [{ everySecs: -1 }, /evaluate\.everySecs of job 'counting' must be above 0/],
  [{ batches: 1.5 }, /evaluate\.batches of job 'counting' must be an integer of at least 1, it is 1\.5/],
  [{ everyStep: 1 }, /'evaluate\.everyStep'\n.*'everySteps'/s],
])('%o is an error that names the option', (evaluate, message) => {
  expect(() => countingJob(evaluate)).toThrow(described(message));
});
