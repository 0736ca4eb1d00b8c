/**
 * One kill of a ps of Python TensorFlow's job. All tasks share a directory, and are started again together: a worker
 * whose ps is gone does not continue by itself. That the ps is dead is noticed at once here.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { CHIEF, RecoveryCluster, TASKS, WORKERS } from './recovery-cluster.js';

/** Durations in milliseconds. */
export interface Restart {
  /** From the start of the processes until the servers of both ps and of the worker that makes the first step listen. */
  readonly start: number;
  /** From then until the first step. */
  readonly step: number;
  /** From the first step until both workers have made one. */
  readonly others: number;
  readonly lostSteps: number;
}

/** How long the job trains before the kill. It saves every second. */
const TRAIN_MS = 4000;

export async function restartOnce(parent: string): Promise<Restart> {
  await using cluster = await RecoveryCluster.create('python', parent);
  await cluster.startAll();
  await cluster.firstStep(CHIEF, 0);
  await sleep(TRAIN_MS + Math.random() * 1000);
  const killedAt = await cluster.kill('ps 1');
  const before = Math.max(
    ...WORKERS.flatMap((name) =>
      cluster.linesOf(name).flatMap(({ text }) => Number(/^step (\d+)/.exec(text)?.[1] ?? 0)),
    ),
  );
  await cluster.killAll();
  const startedAt = await cluster.start('ps 0');
  for (const name of TASKS.slice(1)) await cluster.start(name);
  const steps = await Promise.all(
    WORKERS.map(async (name) => ({ name, ...(await cluster.firstStep(name, killedAt)) })),
  );
  const [first, last] = steps.sort((a, b) => a.at - b.at) as [(typeof steps)[0], (typeof steps)[0]];
  const needed = ['ps 0', 'ps 1', first.name] as const;
  const listening = await Promise.all(needed.map((name) => cluster.waitFor(name, /^started$/, startedAt)));
  const listensAt = Math.max(...listening.map(({ at }) => at));
  return {
    start: listensAt - startedAt,
    step: first.at - listensAt,
    others: last.at - first.at,
    lostSteps: Math.max(0, before - first.step + 1),
  };
}
