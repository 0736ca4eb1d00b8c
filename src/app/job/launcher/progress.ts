/** Queries the agents for the state of the cluster periodically: one line for each task, and a summary. */
import { sleep } from '../../../base/async/deadline.js';
import { isShoalError } from '../../../base/errors/errors.js';
import type { JobEventData } from '../../../base/text/job-event.js';
import { askStatus } from '../../../distributed/cluster/agent/status.js';
import type { ClusterStatus } from '../../../distributed/cluster/agent/wire.js';
import type { Security } from '../../../distributed/cluster/spec/security.js';
import type { TaskId } from '../../../distributed/cluster/spec/task-id.js';
import { stepOf } from '../running/step-text.js';

export interface ProgressOptions {
  /** The agents that currently run, preferred ones first. */
  readonly addresses: () => readonly string[];
  readonly security: Security;
  readonly lastStep?: number;
  readonly everyMs: number;
  readonly onLines: (summary: string, tasks: readonly string[], data: JobEventData) => void;
  /** All tasks and their processes. */
  readonly tasks: () => readonly TaskProcess[];
  readonly now?: () => number;
}

export interface TaskProcess {
  readonly label: string;
  readonly task: TaskId;
  readonly pid: number | undefined;
  readonly isRunning: boolean;
  readonly restarts: number;
}

type Members = ClusterStatus['members'];

interface Sample {
  readonly step: number;
  readonly at: number;
}

/** The line of a task; `member` is what the cluster knows of it. */
export function taskLine(
  { label, pid, isRunning, restarts }: TaskProcess,
  member: Members[number] | undefined,
  width: number,
): string {
  const isCurrent = member !== undefined && member.pid === pid;
  const parts = [
    !isRunning ? 'ended' : isCurrent ? member.status : 'starting',
    ...(isCurrent && member.step !== null ? [`step ${member.step}`] : []),
    ...(pid === undefined ? [] : [`pid ${pid}`]),
    ...(restarts === 0 ? [] : [`restart ${restarts}`]),
  ];
  return `${label.padEnd(width)} │ ${parts.join(' · ')}`;
}

/** Whether the current process of a task is an alive member of the cluster. */
export const hasJoined = ({ pid, isRunning }: TaskProcess, member: Members[number] | undefined): boolean =>
  isRunning && member?.pid === pid && member?.status === 'alive';

export function progressLine(
  step: number | undefined,
  perSecond: number | undefined,
  { alive, all }: { readonly alive: number; readonly all: number },
  lastStep?: number,
): string {
  const parts = [
    step === undefined ? 'no step yet' : stepOf(step, lastStep),
    ...(perSecond === undefined ? [] : [`${Math.round(perSecond)} steps/s`]),
    `${alive} of ${all} tasks alive`,
  ];
  return parts.join(' · ');
}

/** Steps per second between two samples; undefined after a recovery to an earlier step. */
export function rate(before: Sample | undefined, after: Sample): number | undefined {
  if (before === undefined || after.step < before.step || after.at <= before.at) return undefined;
  return ((after.step - before.step) * 1000) / (after.at - before.at);
}

export class Progress {
  readonly #options: ProgressOptions;
  readonly #ending = new AbortController();
  #last: Sample | undefined;
  #members: Members = [];
  #highest: number | undefined;
  #running: Promise<void> | undefined;

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  /** The highest step of training that was seen; undefined before the first one. */
  get highestStep(): number | undefined {
    return this.#highest;
  }

  start(): void {
    // Progress is not worth a failure.
    this.#running = this.#loop().catch(() => {});
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #loop(): Promise<void> {
    const { signal } = this.#ending;
    const { everyMs, onLines, tasks, lastStep, now = () => performance.now() } = this.#options;
    while (!signal.aborted) {
      try {
        await sleep(everyMs, signal);
      } catch {
        return;
      }
      // Tasks that start or recover do not answer: what is known of them stays.
      this.#members = (await this.#ask()) ?? this.#members;
      const members = this.#members;
      const steps = members.flatMap((member) => (member.step === null ? [] : [member.step]));
      const step = steps.length === 0 ? undefined : Math.max(...steps);
      if (signal.aborted) return;
      const sample = step === undefined ? undefined : { step, at: now() };
      const perSecond = sample && rate(this.#last, sample);
      this.#last = sample ?? this.#last;
      if (step !== undefined) this.#highest = Math.max(step, this.#highest ?? 0);
      const all = tasks();
      const memberOf = (one: TaskProcess) => members.find(({ task }) => task === one.task);
      const alive = all.filter((one) => hasJoined(one, memberOf(one))).length;
      const width = Math.max(...all.map(({ label }) => label.length));
      const known = step ?? this.#last?.step;
      onLines(
        progressLine(known, perSecond, { alive, all: all.length }, lastStep),
        all.map((one) => taskLine(one, memberOf(one), width)),
        {
          event: 'progress',
          step: known,
          lastStep,
          stepsPerSecond: perSecond,
          alive,
          tasks: all.length,
        },
      );
    }
  }

  /** The tasks that the cluster knows; undefined if no agent answers. */
  async #ask(): Promise<Members | undefined> {
    const addresses = this.#options.addresses();
    if (addresses.length === 0) return undefined;
    const { signal } = this.#ending;
    try {
      const status = await askStatus({
        addresses,
        security: this.#options.security,
        timeoutMs: 1000,
        signal,
      });
      return status.members;
    } catch (error) {
      if (isShoalError(error)) return undefined;
      throw error;
    }
  }
}
