/** Where training is, asked of the agents from time to time and put into one line. */

import { sleep } from '../../async/deadline.js';
import { askStatus } from '../../cluster/agent/status.js';
import type { Security } from '../../cluster/spec/security.js';
import { isShoalError } from '../../errors/errors.js';

export interface ProgressOptions {
  /** The agents that can be asked at the moment, best first. */
  readonly addresses: () => readonly string[];
  readonly security: Security;
  readonly lastStep?: number | undefined;
  readonly everyMs: number;
  readonly onLine: (line: string) => void;
  /** How many tasks run, of how many. */
  readonly tasks: () => { readonly alive: number; readonly all: number };
  readonly now?: () => number;
}

interface Sample {
  readonly step: number;
  readonly at: number;
}

const count = (value: number) => value.toLocaleString('en-US');

export function progressLine(
  step: number | undefined,
  perSecond: number | undefined,
  { alive, all }: { readonly alive: number; readonly all: number },
  lastStep?: number,
): string {
  const parts = [
    step === undefined ? 'no step yet' : `step ${count(step)}${lastStep ? ` of ${count(lastStep)}` : ''}`,
    ...(perSecond === undefined ? [] : [`${count(Math.round(perSecond))} steps/s`]),
    `${alive} of ${all} tasks alive`,
  ];
  return parts.join(' · ');
}

/** The rate between two looks; none where steps went back, which a recovery does. */
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
      onLine(progressLine(step, perSecond, tasks(), lastStep));
    }
  }

  /** The furthest step that anybody knows of; undefined where nobody answers or nobody has stepped. */
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
      // Tasks that start or recover do not answer; the next look will tell.
      if (isShoalError(error)) return undefined;
      throw error;
    }
  }
}
