/** A large cluster on one small machine: it starts, trains, loses a ps, stops; and what it takes in memory. */
import { EXIT } from '../../src/errors/exit-codes.js';
import { Crew, type CrewTask } from '../cluster/lab-tasks.js';
import { allSay, exitsWell, killed, progresses, START_MS, sameProcesses } from '../cluster/task-checks.js';
import type { Context, Experiment } from '../experiment.js';
import { type Memory, memoryOf } from '../hosts/memory.js';

/** Many processes begin at once on few processors. */
const PATIENCE_MS = 4 * START_MS;
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
    logs: { type: 'string', description: 'a directory for what each task says' },
  },
  async run(ctx) {
    const [psCount, workerCount] = [Number(ctx.flags.ps), Number(ctx.flags.workers)];
    const lab = await ctx.lab({ hosts: 2 });
    const crew = new Crew(lab, {
      ps: psCount,
      workers: workerCount,
      lastStep: 10_000_000,
      deadAfterMs: DEAD_AFTER_MS,
      together: true,
      logs: ctx.flags.logs as string | undefined,
    });
    const begun = Date.now();
    const ps = Array.from({ length: psCount }, (_, index) => crew.start('ps', index));
    await Promise.all(ps.map(({ process }) => process.waitFor(/ agent at /, { timeoutMs: PATIENCE_MS })));
    const workers = Array.from({ length: workerCount }, (_, index) => crew.start('worker', index));
    await Promise.all(
      workers.map(({ process }) => process.waitFor(/ step \d+ of/, { timeoutMs: PATIENCE_MS })),
    );
    ctx.measure('until all workers trained', (Date.now() - begun) / 1000, 's');
    await progresses(ctx, workers, 'every worker makes steps');
    await memory(ctx, ps, workers, Number(ctx.flags['mb-per-task']));

    ctx.log('the last ps is killed, and comes back on another host');
    const lost = ps.pop() as CrewTask;
    const { at, dyingMs } = await killed(ctx, lost);
    await allSay(ctx, workers, /a step failed/, at, {
      name: 'every worker gives the dead ps up long before its silence would tell',
      boundMs: dyingMs + DEAD_AFTER_MS / 2,
      measure: 'until all workers gave up the dead ps',
    });
    await allSay(ctx, ps, new RegExp(`ps/task:${psCount - 1} is lost`), at, {
      name: 'so does every other ps',
      boundMs: dyingMs + DEAD_AFTER_MS / 2,
      measure: 'until all ps knew of the dead ps',
    });
    const again = crew.start('ps', psCount - 1, lab.host(1));
    await allSay(ctx, workers, /training goes on/, at, {
      name: 'every worker goes on with the ps that replaces it',
      boundMs: PATIENCE_MS,
    });
    await progresses(ctx, workers, 'training goes on');
    sameProcesses(ctx, [...ps, ...workers], 'all others are the processes that were started');

    for (const { process } of workers) process.kill('SIGINT');
    await exitsWell(ctx, workers, 'the workers stop when told', {
      code: EXIT.interrupted,
      timeoutMs: PATIENCE_MS,
    });
    await exitsWell(ctx, [...ps, again], 'the ps end when all workers have left', { timeoutMs: PATIENCE_MS });
    await lab.dispose();
  },
};

async function memory(
  ctx: Context,
  ps: readonly CrewTask[],
  workers: readonly CrewTask[],
  boundMb: number,
): Promise<void> {
  const measured = async (tasks: readonly CrewTask[]) =>
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
