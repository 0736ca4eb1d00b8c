/** Assertions of experiments about a training cluster: exit codes, progress, and log lines in time. */
import { sleep } from '../../src/base/async/deadline.js';
import type { Context } from '../experiment.js';
import { Lateness } from '../hosts/lateness.js';
import { LabCluster, type LabTask, loggedAt } from './lab-tasks.js';

export const START_MS = 300_000;
const DONE_MS = 600_000;
const PROGRESS_MS = 120_000;

export const title = ({ job, index, host }: LabTask) => `${job} ${index} on ${host.name}`;

/** Waits for the end of the tasks; all must exit with the code. */
export async function allExit(
  ctx: Context,
  tasks: readonly LabTask[],
  name: string,
  { code = 0, timeoutMs = DONE_MS }: { readonly code?: number; readonly timeoutMs?: number } = {},
): Promise<void> {
  const failures = await Promise.all(
    tasks.map(async (task) => {
      try {
        const exit = await task.process.ended({ timeoutMs });
        if (exit.code === code) return undefined;
        return `${title(task)} ended with ${exit.signal ?? exit.code}: ${lastLines(task, 6)}`;
      } catch {
        return `${title(task)} did not end within ${timeoutMs} ms: ${lastLines(task, 6)}`;
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

/** Parses the last line of a worker's log. */
export function endOf({ process }: LabTask): WorkerEnd {
  const [, step, own] =
    /(?:done|stopped) at step (\d+)(?: \(.*\))?; (\d+) steps were made here/.exec(process.output) ?? [];
  return { step: Number(step), own: Number(own) };
}

/** Waits until a task logs a matching line after a time; returns the milliseconds between them. */
export async function waitForLog(
  ctx: Context,
  task: LabTask,
  what: RegExp,
  after: number,
  timeoutMs = START_MS,
): Promise<number | undefined> {
  const deadline = Date.now() + timeoutMs;
  const said = () => loggedAt(task, what, after);
  while (said() === undefined && Date.now() < deadline && task.process.running) await sleep(25, ctx.signal);
  const at = said();
  return at === undefined ? undefined : at - after;
}

/**
 * Asserts that all tasks log a matching line within a bound plus the scheduling delay of the machine; measures the
 * slowest.
 */
export async function allLog(
  ctx: Context,
  tasks: readonly LabTask[],
  what: RegExp,
  after: number,
  { name, boundMs, measure }: { readonly name: string; readonly boundMs: number; readonly measure?: string },
): Promise<number> {
  // Longer than the bound, to measure by how much a task exceeds it.
  const timeoutMs = Math.max(4 * boundMs, 60_000);
  const lateness = new Lateness();
  const times = await Promise.all(tasks.map((task) => waitForLog(ctx, task, what, after, timeoutMs)));
  const silent = tasks.filter((_, i) => times[i] === undefined);
  const slowest = Math.max(...times.map((time) => time ?? Number.POSITIVE_INFINITY));
  if (measure !== undefined && Number.isFinite(slowest)) ctx.measure(measure, slowest, 'ms');
  lateness.stop();
  const late = lateness.between(after, after + slowest);
  const detail =
    silent.length === 0
      ? `${times.join(', ')} ms; the machine was late by ${late} ms`
      : silent.map((task) => `${title(task)} did not log it: ${lastLines(task, 4)}`).join('; ');
  ctx.check(name, slowest <= boundMs + late, detail);
  return slowest;
}

export interface Death {
  /** The wall-clock time of the signal. */
  readonly at: number;
  /** How long the process took to end; until then its connections stay open. */
  readonly exitMs: number;
}

export async function killed(ctx: Context, { process }: LabTask): Promise<Death> {
  const at = Date.now();
  process.kill('SIGKILL');
  while (process.running) await sleep(5, ctx.signal);
  return { at, exitMs: Date.now() - at };
}

/** Asserts that every worker makes further steps. */
export async function progresses(ctx: Context, workers: readonly LabTask[], name: string): Promise<void> {
  const before = workers.map((worker) => LabCluster.step(worker));
  const since = Date.now();
  const moved = () => workers.every((worker) => loggedAt(worker, /^step \d+ of/, since) !== undefined);
  while (!moved() && Date.now() < since + PROGRESS_MS) await sleep(50, ctx.signal);
  const stuck = workers.filter((worker) => loggedAt(worker, /^step \d+ of/, since) === undefined);
  const detail =
    stuck.length === 0
      ? `${before} → ${workers.map((worker) => LabCluster.step(worker))}`
      : stuck.map((worker) => `${title(worker)}: ${lastLines(worker, 6)}`).join('; ');
  ctx.check(name, moved(), detail);
}

/** Asserts that every task is still the process that was started. */
export function sameProcesses(ctx: Context, tasks: readonly LabTask[], name: string): void {
  const changed = tasks.filter(({ process }) => {
    const pids = [...process.output.matchAll(/ pid (\d+)$/gm)].map(([, pid]) => Number(pid));
    return !process.running || pids.length !== 1 || pids[0] !== process.pid;
  });
  ctx.check(
    name,
    changed.length === 0,
    changed.length === 0
      ? `pids ${tasks.map(({ process }) => process.pid).join(', ')}`
      : changed.map((task) => `${title(task)}: ${lastLines(task, 4)}`).join('; '),
  );
}

export const lastLines = ({ process }: LabTask, lines: number): string =>
  process.output.trimEnd().split('\n').slice(-lines).join(' | ');
