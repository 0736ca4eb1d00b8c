/**
 * One round of trouble for a cluster that trains: a ps dies and comes back elsewhere, a worker dies and comes back
 * elsewhere, one joins, one leaves, a ps freezes and is replaced, a ps is cut off. Each is found in time, and
 * whoever was not touched goes on in the same process.
 */

import { EXIT } from '../../src/errors/exit-codes.js';
import type { Context } from '../experiment.js';
import { Crew, type CrewTask } from './lab-tasks.js';
import { allSay, exitsWell, killed, progresses, START_MS, sameProcesses } from './task-checks.js';

/** A process that died: its host refuses connections, so it is found at once. */
const DEAD_PROCESS_MS = 1000;
/** Silence proves a death only after this long. */
const DEAD_AFTER_MS = 3000;
/** For the news to be acted upon, on a machine that has other things to do. */
const NEWS_MS = 1000;

const GAVE_UP = /a step failed/;
const GOES_ON = /training goes on/;

/** How long each trouble took to be found by the last of those who had to, in milliseconds. */
export type DetectionTimes = Readonly<Record<string, number>>;

export async function disturbedRound(ctx: Context, logs?: string): Promise<DetectionTimes> {
  const lab = await ctx.lab({ hosts: 8 });
  const options = { ps: 2, workers: 3, lastStep: 10_000_000, deadAfterMs: DEAD_AFTER_MS, logs };
  const crew = new Crew(lab, options);
  const [ps0, ps1] = [0, 1].map((index) => crew.start('ps', index)) as [CrewTask, CrewTask];
  const workers = [0, 1, 2].map((index) => crew.start('worker', index));
  const [w0, w1, w2] = workers as [CrewTask, CrewTask, CrewTask];
  await Promise.all(workers.map(trains));
  const times: Record<string, number> = {};

  ctx.log('ps 1 is killed, and comes back on another host at another port');
  let { at, dyingMs } = await killed(ctx, ps1);
  times['until the workers gave up a dead ps'] = await allSay(ctx, workers, GAVE_UP, at, {
    name: 'every worker finds a dead ps within a second',
    boundMs: dyingMs + DEAD_PROCESS_MS,
    measure: 'until all workers gave up the dead ps',
  });
  times['until a ps knew of a dead ps'] = await allSay(ctx, [ps0], /ps\/task:1 is lost/, at, {
    name: 'the other ps finds it within a second',
    boundMs: dyingMs + DEAD_PROCESS_MS,
  });
  const secondPs1 = crew.start('ps', 1, lab.host(5));
  await recovers(ctx, workers, at, 'every worker goes on with the ps that replaces it');
  await progresses(ctx, workers, 'training goes on after the loss of a ps');

  ctx.log('worker 2 is killed, and comes back on another host');
  ({ at, dyingMs } = await killed(ctx, w2));
  times['until the ps knew of a dead worker'] = await allSay(
    ctx,
    [ps0, secondPs1],
    /worker\/task:2 is lost/,
    at,
    {
      name: 'both ps find a dead worker within a second',
      boundMs: dyingMs + DEAD_PROCESS_MS,
      measure: 'until both ps knew of the dead worker',
    },
  );
  const again = crew.start('worker', 2, lab.host(6));
  await trains(again);
  await progresses(ctx, [w0, w1, again], 'training goes on after the loss of a worker');

  ctx.log('worker 3 joins, worker 1 leaves');
  const added = crew.start('worker', 3, lab.host(4));
  await trains(added);
  w1.process.kill('SIGINT');
  await exitsWell(ctx, [w1], 'the leaving worker says good-bye', {
    code: EXIT.interrupted,
    timeoutMs: 60_000,
  });
  const stayed = [w0, again, added];
  await progresses(ctx, stayed, 'training goes on with one more and one less');

  ctx.log('ps 1 freezes, is replaced, and thaws');
  at = Date.now();
  await secondPs1.host.freeze(secondPs1.process);
  times['until the workers gave up a frozen ps'] = await allSay(ctx, stayed, GAVE_UP, at, {
    name: `every worker finds a frozen ps within the configured ${DEAD_AFTER_MS} ms (and ${NEWS_MS} for the news)`,
    boundMs: DEAD_AFTER_MS + NEWS_MS,
    measure: 'until all workers gave up the frozen ps',
  });
  const thirdPs1 = crew.start('ps', 1, lab.host(7));
  await recovers(ctx, stayed, at, 'every worker goes on with the ps that replaces it');
  await secondPs1.host.thaw(secondPs1.process);
  await exitsWell(ctx, [secondPs1], 'the thawed ps sees that it was replaced, and ends', {
    code: EXIT.superseded,
    timeoutMs: 30_000,
  });
  await progresses(ctx, stayed, 'training goes on without it');

  if (lab.isolated) {
    ctx.log('the network of ps 0 is cut, and healed');
    at = Date.now();
    await ps0.host.cut();
    times['until the workers gave up a ps that was cut off'] = await allSay(ctx, stayed, GAVE_UP, at, {
      name: `every worker finds a cut within the configured ${DEAD_AFTER_MS} ms (and ${NEWS_MS} for the news)`,
      boundMs: DEAD_AFTER_MS + NEWS_MS,
      measure: 'until all workers gave up the ps that was cut off',
    });
    at = Date.now();
    await ps0.host.heal();
    await recovers(ctx, stayed, at, 'every worker goes on with the same ps when the network is healed');
    await progresses(ctx, stayed, 'training goes on after the cut');
  }

  sameProcesses(ctx, [ps0, w0], 'who was not touched is the process that was started');
  for (const { process } of stayed) process.kill('SIGINT');
  await exitsWell(ctx, stayed, 'the workers stop when told', {
    code: EXIT.interrupted,
    timeoutMs: 60_000,
  });
  await exitsWell(ctx, [ps0, thirdPs1], 'the ps end when all workers have left', { timeoutMs: 60_000 });
  await lab.dispose();
  return times;
}

const trains = ({ process }: CrewTask) => process.waitFor(/ step \d+ of/, { timeoutMs: START_MS });

async function recovers(
  ctx: Context,
  workers: readonly CrewTask[],
  since: number,
  name: string,
): Promise<void> {
  await allSay(ctx, workers, GOES_ON, since, { name, boundMs: START_MS });
}
