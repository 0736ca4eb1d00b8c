/** Queries the agents for the global step periodically and formats it as one line. */
import { sleep } from '../../async/deadline.js';
import { askStatus } from '../../cluster/agent/status.js';
import type { Security } from '../../cluster/spec/security.js';
import { isShoalError } from '../../errors/errors.js';
import { stepOf } from '../step-text.js';

export interface ProgressOptions {
  /** The agents that currently run, preferred ones first. */
  readonly addresses: () => readonly string[];
  readonly security: Security;
  readonly lastStep?: number;
  readonly everyMs: number;
  readonly onLine: (line: string) => void;
  /** The number of running tasks and of all tasks. */
  readonly tasks: () => { readonly alive: number; readonly all: number };
  readonly now?: () => number;
}

interface Sample {
  readonly step: number;
  readonly at: number;
}

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
  #running: Promise<void> | undefined;

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#loop();
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #loop(): Promise<void> {
    const { signal } = this.#ending;
    const { everyMs, onLine, tasks, lastStep, now = () => performance.now() } = this.#options;
    while (!signal.aborted) {
      try {
        await sleep(everyMs, signal);
      } catch {
        return;
      }
      const step = await this.#step();
      if (signal.aborted) return;
      const sample = step === undefined ? undefined : { step, at: now() };
      const perSecond = sample && rate(this.#last, sample);
      this.#last = sample ?? this.#last;
      // Tasks that end or recover do not answer: the last known step stays on the line.
      onLine(progressLine(step ?? this.#last?.step, perSecond, tasks(), lastStep));
    }
  }

  /** The highest step that any task reports; undefined if no agent answers or no task has made a step. */
  async #step(): Promise<number | undefined> {
    const addresses = this.#options.addresses();
    if (addresses.length === 0) return undefined;
    const { signal } = this.#ending;
    try {
      const { members } = await askStatus({
        addresses,
        security: this.#options.security,
        timeoutMs: 1000,
        signal,
      });
      const steps = members.flatMap(({ step }) => (step === null ? [] : [step]));
      return steps.length === 0 ? undefined : Math.max(...steps);
    } catch (error) {
      // Tasks that start or recover do not answer.
      if (isShoalError(error)) return undefined;
      throw error;
    }
  }
}
