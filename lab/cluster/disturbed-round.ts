/**
 * One round of faults in a training cluster: a ps dies and restarts elsewhere, a worker dies and restarts
 * elsewhere, one joins, one leaves, a ps freezes and is replaced, a ps is partitioned. Each is detected in time, and
 * the other tasks continue in the same process.
 */

import { EXIT } from '../../src/base/errors/exit-codes.js';
import type { Context } from '../experiment.js';
import { LabCluster, type LabTask } from './lab-tasks.js';
import { allExit, allLog, killed, progresses, START_MS, sameProcesses } from './task-checks.js';

/** A process that died: its host refuses connections, so it is found at once. */
const DEAD_PROCESS_MS = 1000;
/** A silent task is considered dead after this time. */
const DEAD_AFTER_MS = 3000;
/** Additional time to react, on a busy machine. */
const REACTION_MS = 1000;

const GAVE_UP = /a step failed/;
const RESUMED = /the cluster is complete again/;

/** How long the slowest task took to detect each fault, in milliseconds. */
export type DetectionTimes = Readonly<Record<string, number>>;

export async function disturbedRound(ctx: Context, logs?: string): Promise<DetectionTimes> {
  const lab = await ctx.lab({ hosts: 8 });
  const options = { ps: 2, workers: 3, lastStep: 10_000_000, deadAfterMs: DEAD_AFTER_MS, logs };
  const cluster = new LabCluster(lab, options);
  const [ps0, ps1] = [0, 1].map((index) => cluster.start('ps', index)) as [LabTask, LabTask];
  const workers = [0, 1, 2].map((index) => cluster.start('worker', index));
  const [w0, w1, w2] = workers as [LabTask, LabTask, LabTask];
  await Promise.all(workers.map(trains));
  const times: Record<string, number> = {};

  ctx.log('ps 1 is killed, and comes back on another host at another port');
  let { at, exitMs } = await killed(ctx, ps1);
  times['until the workers gave up a dead ps'] = await allLog(ctx, workers, GAVE_UP, at, {
    name: 'every worker finds a dead ps within a second',
    boundMs: exitMs + DEAD_PROCESS_MS,
    measure: 'until all workers gave up the dead ps',
  });
  times['until a ps knew of a dead ps'] = await allLog(ctx, [ps0], /ps\/task:1 is lost/, at, {
    name: 'the other ps finds it within a second',
    boundMs: exitMs + DEAD_PROCESS_MS,
  });
  const secondPs1 = cluster.start('ps', 1, lab.host(5));
  await recovers(ctx, workers, at, 'every worker resumes with the ps that replaces it');
  await progresses(ctx, workers, 'training continues after the loss of a ps');

  ctx.log('worker 2 is killed, and comes back on another host');
  ({ at, exitMs } = await killed(ctx, w2));
  times['until the ps knew of a dead worker'] = await allLog(
    ctx,
    [ps0, secondPs1],
    /worker\/task:2 is lost/,
    at,
    {
      name: 'both ps find a dead worker within a second',
      boundMs: exitMs + DEAD_PROCESS_MS,
      measure: 'until both ps knew of the dead worker',
    },
  );
  const again = cluster.start('worker', 2, lab.host(6));
  await trains(again);
  await progresses(ctx, [w0, w1, again], 'training continues after the loss of a worker');

  ctx.log('worker 3 joins, worker 1 leaves');
  const added = cluster.start('worker', 3, lab.host(4));
  await trains(added);
  w1.process.kill('SIGINT');
  await allExit(ctx, [w1], 'the leaving worker exits gracefully', {
    code: EXIT.interrupted,
    timeoutMs: 60_000,
  });
  const stayed = [w0, again, added];
  await progresses(ctx, stayed, 'training continues with one more and one less');

  ctx.log('ps 1 freezes, is replaced, and thaws');
  at = Date.now();
  await secondPs1.host.freeze(secondPs1.process);
  times['until the workers gave up a frozen ps'] = await allLog(ctx, stayed, GAVE_UP, at, {
    name: `every worker finds a frozen ps within the configured ${DEAD_AFTER_MS} ms (and ${REACTION_MS} to react)`,
    boundMs: DEAD_AFTER_MS + REACTION_MS,
    measure: 'until all workers gave up the frozen ps',
  });
  const thirdPs1 = cluster.start('ps', 1, lab.host(7));
  await recovers(ctx, stayed, at, 'every worker resumes with the ps that replaces it');
  await secondPs1.host.thaw(secondPs1.process);
  await allExit(ctx, [secondPs1], 'the thawed ps sees that it was replaced, and ends', {
    code: EXIT.superseded,
    timeoutMs: 30_000,
  });
  await progresses(ctx, stayed, 'training continues without it');

  if (lab.isolated) {
    ctx.log('ps 0 is disconnected from the network, and reconnected');
    at = Date.now();
    await ps0.host.disconnect();
    times['until the workers gave up a partitioned ps'] = await allLog(ctx, stayed, GAVE_UP, at, {
      name: `every worker detects the partition within the configured ${DEAD_AFTER_MS} ms (and ${REACTION_MS} to react)`,
      boundMs: DEAD_AFTER_MS + REACTION_MS,
      measure: 'until all workers gave up the partitioned ps',
    });
    at = Date.now();
    await ps0.host.reconnect();
    await recovers(ctx, stayed, at, 'every worker resumes with the same ps when it is reconnected');
    await progresses(ctx, stayed, 'training continues after the partition');
  }

  sameProcesses(ctx, [ps0, w0], 'the other tasks are still the processes that were started');
  for (const { process } of stayed) process.kill('SIGINT');
  await allExit(ctx, stayed, 'the workers stop on SIGINT', {
    code: EXIT.interrupted,
    timeoutMs: 60_000,
  });
  await allExit(ctx, [ps0, thirdPs1], 'the ps end when all workers have left', {
    code: EXIT.interrupted,
    timeoutMs: 60_000,
  });
  await lab.dispose();
  return times;
}

const trains = ({ process }: LabTask) => process.waitFor(/ step \d+ of/, { timeoutMs: START_MS });

async function recovers(
  ctx: Context,
  workers: readonly LabTask[],
  since: number,
  name: string,
): Promise<void> {
  await allLog(ctx, workers, RESUMED, since, { name, boundMs: START_MS });
}
