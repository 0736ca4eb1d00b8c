/**
 * One kill of a task of Shoal's cluster: the task is killed, found dead by the others, and started again with an empty
 * directory. It is started only when the others have found it dead, so that the phases follow each other.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { CHIEF, clock, type RecoveryCluster, type TaskName, WORKERS } from './recovery-cluster.js';

/** Durations in milliseconds. */
export interface Recovery {
  /** From the kill until the others have found it. For a ps: until all workers have given up their steps. */
  readonly detect: number;
  /** The start of the process, until its agent listens. TensorFlow is loaded before. */
  readonly start: number;
  /** Until the chief knows which checkpoint to restore. */
  readonly find: number;
  /** Until each ps has read and assigned its values. */
  readonly restore: number;
  /** The rest, until a worker that had stopped has made a step. */
  readonly step: number;
  /** From then until all of them have. */
  readonly others: number;
  readonly lostSteps: number;
}

export const PHASES = ['detect', 'start', 'find', 'restore', 'step', 'others'] as const;

/** The time to the next step without the start of the process. */
export const toFirstStep = ({ detect, find, restore, step }: Recovery): number =>
  detect + find + restore + step;

/** The time until all workers make steps, without the start of the process. */
export const toAllSteps = (recovery: Recovery): number => toFirstStep(recovery) + recovery.others;

export async function startTraining(cluster: RecoveryCluster): Promise<void> {
  await cluster.startAll();
  for (const name of WORKERS) await cluster.firstStep(name, 0);
}

/** Kills a task at a random moment after a save, and measures the recovery. */
export async function killOnce(cluster: RecoveryCluster, victim: TaskName): Promise<Recovery> {
  await cluster.waitFor(CHIEF, /^saved \S*model\.ckpt-/, clock());
  await sleep(Math.random() * 1000);
  const isPs = victim.startsWith('ps');
  const before = isPs ? await phaseSecs(cluster) : undefined;
  const killedAt = await cluster.kill(victim);
  await cluster.wipe(victim);
  const detectedAt = await detection(cluster, victim, killedAt);
  const startedAt = await cluster.start(victim);
  const { at: listensAt } = await cluster.waitFor(victim, /^agent at /, startedAt);
  const stopped = isPs ? WORKERS : [victim];
  const steps = await Promise.all(stopped.map((name) => cluster.firstStep(name, killedAt)));
  const stepTimes = steps.map(({ at }) => at);
  const [firstAt, lastAt] = [Math.min(...stepTimes), Math.max(...stepTimes)];
  const after = before && (await phaseSecs(cluster));
  const spent = (phase: string) => 1000 * ((after?.get(phase) ?? 0) - (before?.get(phase) ?? 0));
  const [find, restore] = [spent('find'), spent('restore')];
  return {
    detect: detectedAt - killedAt,
    start: listensAt - startedAt,
    find,
    restore,
    // Another worker may make a step before the chief has noticed that the restore is complete.
    step: Math.max(0, firstAt - listensAt - find - restore),
    others: lastAt - firstAt,
    lostSteps: lostSteps(cluster, killedAt),
  };
}

async function detection(cluster: RecoveryCluster, victim: TaskName, since: number): Promise<number> {
  const [job, index] = victim.split(' ');
  const lost = new RegExp(`/job:${job}/task:${index} is lost`);
  const found =
    job === 'ps'
      ? WORKERS.map((name) => cluster.waitFor(name, /^a step failed/, since))
      : (['ps 0', 'ps 1'] as const).map((name) => cluster.waitFor(name, lost, since));
  return Math.max(...(await Promise.all(found)).map(({ at }) => at));
}

/** Nothing is lost unless the chief restores a checkpoint. */
function lostSteps(cluster: RecoveryCluster, since: number): number {
  const repeated = cluster.linesOf(CHIEF, since).flatMap(({ text }) => {
    const count = /(\d+) steps are repeated/.exec(text)?.[1];
    return count === undefined ? [] : [Number(count)];
  });
  return repeated.reduce((sum, count) => sum + count, 0);
}

/** The time that the chief has spent in each phase of its recoveries, by its metrics. */
async function phaseSecs(cluster: RecoveryCluster): Promise<ReadonlyMap<string, number>> {
  const response = await fetch(`http://${cluster.addressOf(CHIEF)}/metrics`);
  const text = await response.text();
  const samples = text.matchAll(/^shoal_recovery_seconds_total\{phase="(\w+)"\} (\S+)$/gm);
  return new Map([...samples].map(([, phase, secs]) => [phase as string, Number(secs)]));
}
