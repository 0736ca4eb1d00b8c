/** When a hook acts: every so many seconds, or every so many steps. The first time is at once. */
import { invalid } from '../../errors/errors.js';

export interface TimerOptions {
  readonly everySecs?: number | null | undefined;
  readonly everySteps?: number | null | undefined;
  /** Milliseconds that only go forward. */
  readonly now?: (() => number) | undefined;
}

export interface Elapsed {
  readonly secs: number;
  readonly steps: number;
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
    if ((this.#everySecs === undefined) === (this.#everySteps === undefined)) {
      throw invalid('Say either after how many seconds or after how many steps, not both');
    }
    const every = this.#everySecs ?? this.#everySteps;
    if (!((every as number) > 0)) throw invalid(`Every ${every} is no distance: give a number above 0`);
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
    // After a restore the step may lie before the last one: that counts as far away too.
    return Math.abs(step - last.step) >= (this.#everySteps as number);
  }

  /** Notes that the hook has acted at this step, and gives how long and how far the last time was ago. */
  update(step: number): Elapsed | undefined {
    const last = this.#last;
    const at = this.#now();
    this.#last = { step, at };
    return last && { secs: (at - last.at) / 1000, steps: step - last.step };
  }
}
