/** Triggers a hook every so many seconds or steps, the first time immediately. */
import { invalid } from '../../../base/errors/errors.js';

export interface TimerOptions {
  /** Seconds between triggers; default: none. Set this or `everySteps`. */
  readonly everySecs?: number | null;
  /** Steps between triggers; default: none. */
  readonly everySteps?: number | null;
  /** A monotonic clock, in milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

export interface Elapsed {
  readonly secs: number;
  readonly steps: number;
}

/** Refuses all but one interval, in seconds or in steps. */
export function checkInterval({ everySecs, everySteps }: TimerOptions): void {
  const [interval, ...others] = [everySecs, everySteps].filter((given) => given != null);
  if (interval === undefined) throw invalid('No interval is set, neither in seconds nor in steps');
  if (others.length > 0) throw invalid('An interval in seconds and one in steps are set: set one of them');
  if (!(interval > 0)) throw invalid(`The interval must be above 0, it is ${interval}`);
}

export class SecondOrStepTimer {
  readonly #everySecs: number | undefined;
  readonly #everySteps: number | undefined;
  readonly #now: () => number;
  #last: { readonly step: number; readonly at: number } | undefined;

  constructor({ everySecs, everySteps, now = () => performance.now() }: TimerOptions) {
    this.#everySecs = everySecs ?? undefined;
    this.#everySteps = everySteps ?? undefined;
    this.#now = now;
    checkInterval({ everySecs, everySteps });
  }

  get lastTriggeredStep(): number | undefined {
    return this.#last?.step;
  }

  reset(): void {
    this.#last = undefined;
  }

  shouldTriggerForStep(step: number): boolean {
    const last = this.#last;
    if (!last) return true;
    if (step === last.step) return false;
    if (this.#everySecs !== undefined) return this.#now() >= last.at + this.#everySecs * 1000;
    // After a restore the step may be before the last one: the distance counts in either direction.
    return Math.abs(step - last.step) >= (this.#everySteps as number);
  }

  /** Records that the hook has run at this step. Returns the time and steps since the last time. */
  update(step: number): Elapsed | undefined {
    const last = this.#last;
    const at = this.#now();
    this.#last = { step, at };
    return last && { secs: (at - last.at) / 1000, steps: step - last.step };
  }
}
