/** The events that `--json` prints, of real runs, against their schema. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { JobEvent } from '../../src/base/text/job-event.js';
import { waitUntil } from '../setup/run-setup.js';
import { eventsIn, only } from './event-schema.js';
import { type ShoalProcess, shoal, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 300_000 });

let scratch: string;
let run: ShoalProcess | undefined;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-events-'));
});
afterEach(async () => {
  run?.child.kill('SIGKILL');
  await run?.ended;
  run = undefined;
  rmSync(scratch, { recursive: true, force: true });
});

const JOB = `
  import { defineJob, tf } from 'shoal';
  export default defineJob({
    name: 'line',
    params: { rate: 1e-4 },
    model({ params }) {
      const w = tf.variable('w', { shape: [20], initializer: 1 });
      const loss = w.square().sum();
      const outputs = { total: w.sum(), nothing: w.sum().sub(w.sum()).div(w.sum().sub(w.sum())), w };
      return { loss, outputs, optimizer: tf.train.sgd(params.rate) };
    },
    train: { lastStep: 400, logEverySecs: 0.1, checkpoint: { everySecs: 0.5 } },
    evaluate: { pollSecs: 0.3, metrics: ({ outputs }) => ({ total: tf.metrics.mean(outputs.total) }) },
    callbacks: {
      onEnd: () => {
        console.log('WARN printed by the job');
        console.log('{"event":"save"}');
        process.stdout.write('the last line');
      },
    },
  });`;

const writeJob = (job = JOB) => writeFileSync(join(scratch, 'job.ts'), job);

/** The events so far; the last line may be incomplete. */
const sofar = ({ output: { stdout } }: ShoalProcess): readonly JobEvent[] =>
  eventsIn(stdout.slice(0, stdout.lastIndexOf('\n') + 1));

test('a run in one process prints one event per line, also of what the job prints', async () => {
  writeJob();
  const { code, stdout, stderr } = await shoal(['run', 'job.ts', '--json', '--log-level', 'warn'], {
    cwd: scratch,
  });
  expect(code, stderr).toBe(0);
  const events = eventsIn(stdout);
  expect(new Set(events.map(({ task }) => task))).toEqual(new Set(['worker 0']));
  expect(only(events, 'start')).toMatchObject([{ job: 'line', step: 0, lastStep: 400 }]);
  for (const { outputs } of only(events, 'step'))
    expect(outputs).toEqual({ total: expect.any(Number), nothing: 'NaN' });
  expect(only(events, 'step').length).toBeGreaterThan(0);
  expect(only(events, 'save').at(-1)?.step).toBe(400);
  expect(only(events, 'evaluation').at(-1)).toMatchObject({
    step: 400,
    metrics: { total: expect.any(Number) },
  });
  expect(only(events, 'end')).toMatchObject([
    {
      step: 400,
      ownSteps: 400,
      reason: 'lastStep',
      loss: expect.any(Number),
      evaluation: only(events, 'evaluation').at(-1)?.metrics,
      outputs: { total: expect.any(Number), nothing: 'NaN' },
    },
  ]);
  expect(only(events, 'log').map(({ level, message }) => [level, message])).toEqual([
    ['warn', 'printed by the job'],
    ['info', '{"event":"save"}'],
    ['info', 'the last line'],
  ]);
});

test('an interrupted run says so, and the next one reports what it restores', async () => {
  writeJob();
  const args = ['run', 'job.ts', '--json', '--last-step', '100000000'];
  const started = startShoal(args, { cwd: scratch });
  run = started;
  await waitUntil('a save', () => only(sofar(started), 'save').length > 0);
  started.child.kill('SIGINT');
  expect(await started.ended).toBe(130);
  const [end] = only(eventsIn(started.output.stdout), 'end');
  expect(end).toMatchObject({ reason: 'interrupted' });
  const { code, stdout } = await shoal([...args.slice(0, -1), String(end!.step + 10)], { cwd: scratch });
  expect(code).toBe(0);
  const events = eventsIn(stdout);
  expect(only(events, 'restore')).toMatchObject([{ step: end!.step, checkpoint: `model.ckpt-${end!.step}` }]);
  expect(only(events, 'start')).toMatchObject([{ step: end!.step }]);
});

test('an error is an event with its code, hint and place', async () => {
  writeJob(JOB.replace('1e-4 }', '1e38 }'));
  const { code, stdout } = await shoal(['run', 'job.ts', '--json'], { cwd: scratch });
  expect(code).toBe(2);
  expect(only(eventsIn(stdout), 'error')).toMatchObject([
    { level: 'error', code: 'SHOAL_NAN', message: expect.stringMatching(/NaN/), hint: expect.any(String) },
  ]);
});

test('a cluster that loses a ps prints events of all its tasks', async () => {
  writeJob();
  const flags = ['--ps', '2', '--workers', '2', '--last-step', '100000000', '--dead-after-ms', '3000'];
  const started = startShoal(['run', 'job.ts', '--json', ...flags], { cwd: scratch });
  run = started;
  const seen = <K extends JobEvent['event']>(name: K) => only(sofar(started), name);
  await waitUntil('two saves', () => seen('save').length >= 2);
  const ps = seen('taskStarted').find(({ member }) => member === 'ps 1')!;
  process.kill(ps.pid, 'SIGKILL');
  const recovered = () => seen('recovery').filter(({ task }) => task === 'worker 0');
  await waitUntil('the recovery', () => recovered().length > 0);
  const { restored, lost, seconds } = recovered()[0]!;
  expect(lost).toContain('ps 1');
  expect(restored).toMatchObject({
    checkpoint: expect.stringMatching(/^model\.ckpt-\d+$/),
    isRepeated: true,
  });
  expect(seconds).toBeGreaterThan(0);
  const before = recovered()[0]!.time;
  await waitUntil('steps after it', () => seen('step').some(({ time }) => time > before));
  await waitUntil('an evaluation', () => seen('evaluation').length > 0);
  started.child.kill('SIGINT');
  expect(await started.ended, started.output.stderr).toBe(130);
  const events = eventsIn(started.output.stdout);
  expect(only(events, 'taskEnded')).toContainEqual(
    expect.objectContaining({ member: 'ps 1', pid: ps.pid, code: null, signal: 'SIGKILL' }),
  );
  expect(only(events, 'taskRestarted')).toMatchObject([{ member: 'ps 1', restarts: 1, task: 'shoal' }]);
  expect(only(events, 'taskReturned').map(({ member }) => member)).toContain('ps 1');
  expect(only(events, 'taskStarted').filter(({ member }) => member === 'ps 1')).toHaveLength(2);
  expect(new Set(only(events, 'step').map(({ task }) => task))).toEqual(new Set(['worker 0', 'worker 1']));
  expect(only(events, 'evaluation')[0]).toMatchObject({
    task: 'evaluator 0',
    metrics: { total: expect.any(Number) },
  });
  expect(
    only(events, 'end')
      .map(({ task, reason }) => [task, reason])
      .sort(),
  ).toEqual([
    ['worker 0', 'interrupted'],
    ['worker 1', 'interrupted'],
  ]);
});

test('shoal task prints events too', async () => {
  writeJob();
  const { code, stdout } = await shoal(['task', 'job.ts', '--json', '--last-step', '20'], { cwd: scratch });
  expect(code).toBe(0);
  expect(only(eventsIn(stdout), 'end')).toMatchObject([{ task: 'worker 0', step: 20 }]);
});
