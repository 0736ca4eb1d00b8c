/** What experiments assert of a training cluster: that tasks end well, go on, and say something in time. */
import { sleep } from '../../src/async/deadline.js';
import type { Context } from '../experiment.js';
import { Lateness } from '../hosts/lateness.js';
import { Crew, type CrewTask, saidAt } from './lab-tasks.js';

export const START_MS = 300_000;
const DONE_MS = 600_000;
const GOES_ON_MS = 120_000;

export const title = ({ job, index, host }: CrewTask) => `${job} ${index} on ${host.name}`;

/** Waits for the end of the tasks; all must exit with the code. */
export async function exitsWell(
  ctx: Context,
  tasks: readonly CrewTask[],
  name: string,
  { code = 0, timeoutMs = DONE_MS }: { readonly code?: number; readonly timeoutMs?: number } = {},
): Promise<void> {
  const failures = await Promise.all(
    tasks.map(async (task) => {
      try {
        const exit = await task.process.ended({ timeoutMs });
        if (exit.code === code) return undefined;
        return `${title(task)} ended with ${exit.signal ?? exit.code}: ${lastWords(task, 6)}`;
      } catch {
        return `${title(task)} did not end within ${timeoutMs} ms: ${lastWords(task, 6)}`;
      }
    }),
  );
  const bad = failures.filter((failure) => failure !== undefined);
  ctx.check(name, bad.length === 0, bad.join('; ') || `${tasks.length} tasks`);
}

export interface WorkerEnd {
  /** The global step at which the worker stopped. */
  readonly step: number;
  /** The steps that it made itself. */
  readonly own: number;
}

/** What a worker said at its end. */
export function endOf({ process }: CrewTask): WorkerEnd {
  const [, step, own] =
    /(?:done|stopped) at step (\d+); (\d+) steps were made here/.exec(process.output) ?? [];
  return { step: Number(step), own: Number(own) };
}

/** Waits until a task has said something after a moment; how many milliseconds after. */
export async function saysWithin(
  ctx: Context,
  task: CrewTask,
  what: RegExp,
  after: number,
  timeoutMs = START_MS,
): Promise<number | undefined> {
  const deadline = Date.now() + timeoutMs;
  const said = () => saidAt(task, what, after);
  while (said() === undefined && Date.now() < deadline && task.process.running) await sleep(25, ctx.signal);
  const at = said();
  return at === undefined ? undefined : at - after;
}

/**
 * All of the tasks must say something within a bound, and what the machine was late meanwhile; the time of the
 * slowest is measured.
 */
export async function allSay(
  ctx: Context,
  tasks: readonly CrewTask[],
  what: RegExp,
  after: number,
  { name, boundMs, measure }: { readonly name: string; readonly boundMs: number; readonly measure?: string },
): Promise<number> {
  // Longer than the bound: how late somebody was is worth knowing.
  const patience = Math.max(4 * boundMs, 60_000);
  const lateness = new Lateness();
  const times = await Promise.all(tasks.map((task) => saysWithin(ctx, task, what, after, patience)));
  const silent = tasks.filter((_, i) => times[i] === undefined);
  const slowest = Math.max(...times.map((time) => time ?? Number.POSITIVE_INFINITY));
  if (measure !== undefined && Number.isFinite(slowest)) ctx.measure(measure, slowest, 'ms');
  lateness.stop();
  const late = lateness.between(after, after + slowest);
  const detail =
    silent.length === 0
      ? `${times.join(', ')} ms; the machine was late by ${late} ms`
      : silent.map((task) => `${title(task)} did not say so: ${lastWords(task, 4)}`).join('; ');
  ctx.check(name, slowest <= boundMs + late, detail);
  return slowest;
}

export interface Death {
  /** When it was ordered, by the wall clock. */
  readonly at: number;
  /** How long the process took to end: until then it is not dead, and its connections stand. */
  readonly dyingMs: number;
}

export async function killed(ctx: Context, { process }: CrewTask): Promise<Death> {
  const at = Date.now();
  process.kill('SIGKILL');
  while (process.running) await sleep(5, ctx.signal);
  return { at, dyingMs: Date.now() - at };
}

/** Every worker makes steps that it had not made when this was called. */
export async function progresses(ctx: Context, workers: readonly CrewTask[], name: string): Promise<void> {
  const before = workers.map((worker) => Crew.step(worker));
  const since = Date.now();
  const moved = () => workers.every((worker) => saidAt(worker, /^step \d+ of/, since) !== undefined);
  while (!moved() && Date.now() < since + GOES_ON_MS) await sleep(50, ctx.signal);
  const stuck = workers.filter((worker) => saidAt(worker, /^step \d+ of/, since) === undefined);
  const detail =
    stuck.length === 0
      ? `${before} → ${workers.map((worker) => Crew.step(worker))}`
      : stuck.map((worker) => `${title(worker)}: ${lastWords(worker, 6)}`).join('; ');
  ctx.check(name, moved(), detail);
}

/** The tasks are the processes that were started: each runs, and has begun once. */
export function sameProcesses(ctx: Context, tasks: readonly CrewTask[], name: string): void {
  const changed = tasks.filter(({ process }) => {
    const pids = [...process.output.matchAll(/ pid (\d+)$/gm)].map(([, pid]) => Number(pid));
    return !process.running || pids.length !== 1 || pids[0] !== process.pid;
  });
  ctx.check(
    name,
    changed.length === 0,
    changed.length === 0
      ? `pids ${tasks.map(({ process }) => process.pid).join(', ')}`
      : changed.map((task) => `${title(task)}: ${lastWords(task, 4)}`).join('; '),
  );
}

export const lastWords = ({ process }: CrewTask, lines: number): string =>
  process.output.trimEnd().split('\n').slice(-lines).join(' | ');
