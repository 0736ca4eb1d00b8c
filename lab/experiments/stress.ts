/** Many steps with several in flight: none may be aborted or stuck, each is counted once, and memory stays flat. */
import { sleep } from '../../src/base/async/deadline.js';
import { LabCluster, type LabTask } from '../cluster/lab-tasks.js';
import { allExit, lastLines, START_MS, title } from '../cluster/task-checks.js';
import type { Context, Experiment } from '../experiment.js';
import { memoryOf } from '../hosts/memory.js';

const STUCK_MS = 60_000;
/** What a task may grow in the second half of the steps: collections of garbage come at any time. */
const GROWTH_MB = 32;
/** Steps in flight hold handles, more or fewer at any moment. */
const GROWTH_HANDLES = 64;
/** How slow a machine may be. */
const MS_PER_STEP = 60;

interface Sample {
  readonly step: number;
  readonly mb: number;
  readonly handles: number;
}

export const experiment: Experiment = {
  name: 'stress',
  description:
    '2 ps + 3 workers with steps in flight for minutes: none aborted, none stuck, each counted once; flat memory',
  flags: {
    minutes: { type: 'string', default: '20', description: 'how long' },
    steps: { type: 'string', description: 'the number of steps, instead of --minutes' },
    inflight: { type: 'string', default: '4', description: 'steps in flight in each worker' },
    logs: { type: 'string', description: "a directory for each task's output" },
  },
  async run(ctx) {
    const steps = Number(ctx.flags.steps ?? 0);
    const seconds = Number(ctx.flags.minutes) * 60;
    const lab = await ctx.lab({ hosts: 5 });
    const cluster = new LabCluster(lab, {
      ps: 2,
      workers: 3,
      lastStep: 0,
      inflight: Number(ctx.flags.inflight),
      // On a machine that is busy with steps a process may wait for seconds.
      deadAfterMs: 30_000,
      program: 'stress.ts',
      env: { LAB_SECONDS: String(seconds), LAB_STEPS: String(steps) },
      logs: ctx.flags.logs as string | undefined,
    });
    const ps = [0, 1].map((index) => cluster.start('ps', index));
    const workers = [0, 1, 2].map((index) => cluster.start('worker', index));
    const begun = performance.now();
    const watch = watchTasks(ctx, [...ps, ...workers], workers, steps || undefined);
    await allExit(ctx, [...workers, ...ps], 'all tasks end by themselves', {
      timeoutMs: (steps > 0 ? steps * MS_PER_STEP : seconds * 1000) + 3 * START_MS,
    });
    const samples = await watch;
    const ends = workers.map(({ process }) => {
      const found = /ran (\d+) steps, the slowest in (\d+) ms, recovered (\d+) times/.exec(process.output);
      const [own, slowest, recoveries] = (found ?? []).slice(1).map(Number);
      return { own, slowest, recoveries };
    });
    const made = ends.reduce((sum, { own = Number.NaN }) => sum + own, 0);
    const chief = workers[0]?.process.output ?? '';
    const counted = Number(/global step is (\d+)/.exec(chief)?.[1]);
    ctx.check('every step is counted once', counted === made, `${counted} of ${made}`);
    if (steps > 0) ctx.check('all steps were made', made >= steps, `${made} of ${steps}`);
    const failed = workers.filter(({ process }) => /a step failed|failed:/.test(process.output));
    ctx.check(
      'no step was aborted',
      failed.length === 0 && ends.every(({ recoveries }) => recoveries === 0),
      failed.map((worker) => `${title(worker)}: ${lastLines(worker, 6)}`).join('; '),
    );
    const slowest = Math.max(...ends.map((end) => end.slowest ?? Number.POSITIVE_INFINITY));
    ctx.check('no step was stuck', slowest < STUCK_MS, `the slowest took ${slowest} ms`);
    for (const [task, found] of samples) checkFlat(ctx, task, found);
    ctx.measure('steps', made, 'steps');
    ctx.measure('steps per second of the cluster', (made / (performance.now() - begun)) * 1000, 'steps/s');
    ctx.measure('the slowest step', slowest, 'ms');
    await lab.dispose();
  },
};

/** Samples memory and handles of the tasks while the workers make steps; logs the progress. */
async function watchTasks(
  ctx: Context,
  tasks: readonly LabTask[],
  workers: readonly LabTask[],
  steps: number | undefined,
): Promise<ReadonlyMap<LabTask, readonly Sample[]>> {
  const samples = new Map(tasks.map((task) => [task, [] as Sample[]]));
  let loggedAt = performance.now();
  while (workers.every(({ process }) => process.running)) {
    const step = Math.max(...workers.map(LabCluster.step));
    for (const [task, found] of samples) {
      const memory = await memoryOf(task.process.pid).catch(() => undefined);
      const handles = Number(/.* (\d+) native handles/s.exec(task.process.output)?.[1] ?? Number.NaN);
      if (memory && step > 0) found.push({ step, mb: memory.residentMb, handles });
    }
    if (performance.now() - loggedAt > 10_000) {
      loggedAt = performance.now();
      const memory = [...samples.values()].map((found) => found.at(-1)?.mb.toFixed(0) ?? '?').join(', ');
      ctx.log(`step ${step}${steps ? ` of ${steps}` : ''}; MB of the ps and workers: ${memory}`);
    }
    await sleep(1000, ctx.signal);
  }
  return samples;
}

/**
 * Asserts that a task does not grow in the second half of the steps. Its memory rises and falls with V8's collections, so
 * the peaks of two quarters are compared.
 */
function checkFlat(ctx: Context, task: LabTask, samples: readonly Sample[]): void {
  const last = samples.at(-1);
  const sampleAfter = (part: number) => samples.find(({ step }) => step >= part * (last?.step ?? 0));
  const [early, half] = [sampleAfter(0.1), sampleAfter(0.5)];
  if (!last || !early || !half) {
    ctx.check(`${title(task)} was measured`, false);
    return;
  }
  const peak = (from: number, to: number) => {
    const within = samples.filter(({ step }) => step >= from * last.step && step <= to * last.step);
    return Math.max(...within.map(({ mb }) => mb));
  };
  const [before, after] = [peak(0.25, 0.5), peak(0.75, 1)];
  ctx.check(
    `the memory of ${title(task)} is flat`,
    after - before < GROWTH_MB,
    `peaks of ${before.toFixed(0)} MB in the second and ${after.toFixed(0)} MB in the last quarter`,
  );
  const handles = [early, half, last].map((sample) => sample.handles).join(', ');
  ctx.check(
    `${title(task)} leaks no handles`,
    last.handles - early.handles < GROWTH_HANDLES,
    `${handles} at 10, 50, 100 %`,
  );
}
