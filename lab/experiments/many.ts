/** A large cluster on one small machine: it starts, trains, loses a ps and stops; its memory is measured. */
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { LabCluster, type LabTask } from '../cluster/lab-tasks.js';
import { allExit, allLog, killed, progresses, START_MS, sameProcesses } from '../cluster/task-checks.js';
import type { Context, Experiment } from '../experiment.js';
import { type Memory, memoryOf } from '../hosts/memory.js';

/** Many processes start concurrently on few processors. */
const TIMEOUT_MS = 4 * START_MS;
const DEAD_AFTER_MS = 10_000;

export const experiment: Experiment = {
  name: 'many',
  description: '8 ps + 8 workers on one machine start, train, replace a ps and stop; memory per task',
  flags: {
    ps: { type: 'string', default: '8', description: 'how many ps' },
    workers: { type: 'string', default: '8', description: 'how many workers' },
    'mb-per-task': {
      type: 'string',
      default: '450',
      description: 'proportional memory that a task may have',
    },
    logs: { type: 'string', description: "a directory for each task's output" },
  },
  async run(ctx) {
    const [psCount, workerCount] = [Number(ctx.flags.ps), Number(ctx.flags.workers)];
    const lab = await ctx.lab({ hosts: 2 });
    const cluster = new LabCluster(lab, {
      ps: psCount,
      workers: workerCount,
      lastStep: 10_000_000,
      deadAfterMs: DEAD_AFTER_MS,
      together: true,
      logs: ctx.flags.logs as string | undefined,
    });
    const begun = Date.now();
    const ps = Array.from({ length: psCount }, (_, index) => cluster.start('ps', index));
    await Promise.all(ps.map(({ process }) => process.waitFor(/ agent at /, { timeoutMs: TIMEOUT_MS })));
    const workers = Array.from({ length: workerCount }, (_, index) => cluster.start('worker', index));
    await Promise.all(
      workers.map(({ process }) => process.waitFor(/ step \d+ of/, { timeoutMs: TIMEOUT_MS })),
    );
    ctx.measure('until all workers trained', (Date.now() - begun) / 1000, 's');
    await progresses(ctx, workers, 'every worker makes steps');
    await memory(ctx, ps, workers, Number(ctx.flags['mb-per-task']));

    ctx.log('the last ps is killed, and comes back on another host');
    const lost = ps.pop() as LabTask;
    const { at, exitMs } = await killed(ctx, lost);
    await allLog(ctx, workers, /a step failed/, at, {
      name: 'every worker detects the dead ps long before the heartbeat timeout',
      boundMs: exitMs + DEAD_AFTER_MS / 2,
      measure: 'until all workers gave up the dead ps',
    });
    await allLog(ctx, ps, new RegExp(`ps/task:${psCount - 1} is lost`), at, {
      name: 'so does every other ps',
      boundMs: exitMs + DEAD_AFTER_MS / 2,
      measure: 'until all ps knew of the dead ps',
    });
    const again = cluster.start('ps', psCount - 1, lab.host(1));
    await allLog(ctx, workers, /the cluster is complete again/, at, {
      name: 'every worker resumes with the ps that replaces it',
      boundMs: TIMEOUT_MS,
    });
    await progresses(ctx, workers, 'training continues');
    sameProcesses(ctx, [...ps, ...workers], 'all others are the processes that were started');

    for (const { process } of workers) process.kill('SIGINT');
    await allExit(ctx, workers, 'the workers stop on SIGINT', {
      code: EXIT.interrupted,
      timeoutMs: TIMEOUT_MS,
    });
    await allExit(ctx, [...ps, again], 'the ps end when all workers have left', {
      code: EXIT.interrupted,
      timeoutMs: TIMEOUT_MS,
    });
    await lab.dispose();
  },
};

async function memory(
  ctx: Context,
  ps: readonly LabTask[],
  workers: readonly LabTask[],
  boundMb: number,
): Promise<void> {
  const measured = async (tasks: readonly LabTask[]) =>
    Promise.all(tasks.map(({ process }) => memoryOf(process.pid)));
  const roles = { ps: await measured(ps), worker: await measured(workers) };
  for (const [role, all] of Object.entries(roles)) {
    const mean = (key: keyof Memory) => all.reduce((sum, one) => sum + one[key], 0) / all.length;
    ctx.measure(`resident memory of a ${role}, mean`, mean('residentMb'), 'MB');
    ctx.measure(`its proportional share`, mean('proportionalMb'), 'MB');
    ctx.measure(`of it its own alone`, mean('ownMb'), 'MB');
  }
  const all = [...roles.ps, ...roles.worker];
  const total = all.reduce((sum, { proportionalMb }) => sum + proportionalMb, 0);
  ctx.measure(`all ${all.length} tasks together`, total, 'MB');
  const largest = Math.max(...all.map(({ proportionalMb }) => proportionalMb));
  ctx.check(
    `no task has more than ${boundMb} MB of its own and its share`,
    largest <= boundMb,
    `${largest.toFixed(0)} MB`,
  );
}
