/** Early stopping on a metric of the evaluation, on a cluster of real processes, each with its own disk. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { versionsOf } from '../../src/training/saved-model/writing/versions.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-early-stopping-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const PEAK = 150;
type Role = 'ps' | 'worker' | 'evaluator';
type Tasks = Map<string, TaskProcess[]>;

async function cluster(env: NodeJS.ProcessEnv, during: (tasks: Restart) => Promise<void> = async () => {}) {
  await using processes = await TaskProcesses.create('peaked-job.ts', 2, 2, { TASKS_ROOT: root, ...env });
  const tasks: Tasks = new Map();
  const start = (role: Role, index: number) => {
    const process = processes.start(role, index);
    tasks.set(`${role}-${index}`, [...(tasks.get(`${role}-${index}`) ?? []), process]);
    return process;
  };
  for (const [role, index] of [
    ...[0, 1].map((i) => ['ps', i] as const),
    ...[0, 1].map((i) => ['worker', i] as const),
  ])
    start(role, index);
  start('evaluator', 0);
  const current = (name: string) => tasks.get(name)!.at(-1)!;
  /** Kills a task and starts it again with an empty disk. */
  const restart = async (role: Role, index: number) => {
    const name = `${role}-${index}`;
    current(name).child.kill('SIGKILL');
    await current(name).exit;
    await rm(join(root, name), { recursive: true, force: true });
    start(role, index);
  };
  await during({ restart, current });
  const codes = await Promise.all([...tasks.keys()].map((name) => current(name).exit));
  const output = (name: string) =>
    tasks
      .get(name)!
      .map((one) => one.output())
      .join('\n');
  const all = [...tasks.keys()].map((name) => `--- ${name}\n${output(name)}`).join('\n');
  expect(codes, all).toEqual(codes.map(() => 0));
  return { output, all };
}

interface Restart {
  readonly restart: (role: Role, index: number) => Promise<void>;
  readonly current: (name: string) => TaskProcess;
}

/** The job has ended once, with the best of the evaluated checkpoints: it is the export, and the last one. */
async function endsWithTheBest({ output, all }: Awaited<ReturnType<typeof cluster>>) {
  expect(all.match(/training stops/g), all).toHaveLength(1);
  const evaluations = [
    ...output('evaluator-0').matchAll(/evaluation of \S*model\.ckpt-(\d+): score = (\S+)/g),
  ];
  const scores = evaluations.map(([, step, score]) => ({ step: Number(step), score: Number(score) }));
  const best = scores.reduce((one, other) => (other.score > one.score ? other : one));
  expect(output('worker-0'), all).toMatch(
    new RegExp(`the job ends with its best checkpoint, of step ${best.step}: score`),
  );
  // All values are of that checkpoint.
  expect(output('worker-0')).toMatch(new RegExp(`done at step .*a = ${best.step} · b = ${best.step}\\b`));
  const [version] = await versionsOf('peaked', join(root, 'worker-0/export'));
  expect(version?.origin.step, all).toBe(best.step);
  // The last evaluation is that of the model with which the job has ended.
  expect(output('evaluator-0')).toMatch(new RegExp(`done: .* the last of step ${best.step}: score = `));
  return best;
}

/** The scores rise until the peak: what happens then is during an evaluation. */
const slowly = { EVAL_MS: '100' };

it('the evaluator decides, all workers stop, and the job ends with its best checkpoint', {
  timeout: 300_000,
}, async () => {
  const run = await cluster({});
  const { step } = await endsWithTheBest(run);
  expect(Math.abs(step - PEAK)).toBeLessThan(60);
});

it.each([
  ['evaluator', 0],
  ['worker', 0],
  ['ps', 1],
] as const)(
  'decides once although %s %i is killed during an evaluation, with its disk',
  {
    timeout: 400_000,
  },
  async (role, index) => {
    const run = await cluster(slowly, async ({ restart, current }) => {
      await current('evaluator-0').waitForOutput(/(evaluation of [\s\S]*){3}/);
      await new Promise((wait) => setTimeout(wait, 500));
      await restart(role, index);
    });
    await endsWithTheBest(run);
  },
);
