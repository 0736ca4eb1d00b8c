/** Many minutes with several steps in flight: none may be aborted or stuck, each is counted once. */
import { LabCluster } from '../cluster/lab-tasks.js';
import { allExit, lastLines, START_MS, title } from '../cluster/task-checks.js';
import type { Experiment } from '../experiment.js';

const STUCK_MS = 60_000;

export const experiment: Experiment = {
  name: 'stress',
  description:
    '2 ps + 3 workers with steps in flight for minutes: none aborted, none stuck, each counted once',
  flags: {
    minutes: { type: 'string', default: '20', description: 'how long' },
    inflight: { type: 'string', default: '4', description: 'steps in flight in each worker' },
    logs: { type: 'string', description: "a directory for each task's output" },
  },
  async run(ctx) {
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
      env: { LAB_SECONDS: String(seconds) },
      logs: ctx.flags.logs as string | undefined,
    });
    const ps = [0, 1].map((index) => cluster.start('ps', index));
    const workers = [0, 1, 2].map((index) => cluster.start('worker', index));
    await allExit(ctx, [...workers, ...ps], 'all tasks end by themselves', {
      timeoutMs: seconds * 1000 + 3 * START_MS,
    });
    const ends = workers.map(({ process }) => {
      const found = /ran (\d+) steps, the slowest in (\d+) ms, recovered (\d+) times/.exec(process.output);
      const [own, slowest, recoveries] = (found ?? []).slice(1).map(Number);
      return { own, slowest, recoveries };
    });
    const made = ends.reduce((sum, { own = Number.NaN }) => sum + own, 0);
    const chief = workers[0]?.process.output ?? '';
    const counted = Number(/global step is (\d+)/.exec(chief)?.[1]);
    ctx.check('every step is counted once', counted === made, `${counted} of ${made}`);
    const failed = workers.filter(({ process }) => /a step failed|failed:/.test(process.output));
    ctx.check(
      'no step was aborted',
      failed.length === 0 && ends.every(({ recoveries }) => recoveries === 0),
      failed.map((worker) => `${title(worker)}: ${lastLines(worker, 6)}`).join('; '),
    );
    const slowest = Math.max(...ends.map((end) => end.slowest ?? Number.POSITIVE_INFINITY));
    ctx.check('no step was stuck', slowest < STUCK_MS, `the slowest took ${slowest} ms`);
    ctx.measure('steps', made, 'steps');
    ctx.measure('steps per second of the cluster', made / seconds, 'steps/s');
    ctx.measure('the slowest step', slowest, 'ms');
    await lab.dispose();
  },
};
