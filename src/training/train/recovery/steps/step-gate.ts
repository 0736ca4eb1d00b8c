/**
 * The gate that every training step of a task passes. A pause, for a snapshot, lets running steps complete and blocks
 * new ones. A pause is a lease and expires, so a chief that died never blocks a worker.
 *
 * Steps of synchronous training wait for each other's gradients. There a pause names the global step at which all
 * workers pause; until it is reached, steps pass. Only a step that is read during the pause counts: after a restore the
 * global step may be lower than one that was read before.
 *
 * A pause that holds, until a ps has left, is not replaced by a later one, of an export for example: steps pass when both
 * have ended.
 */
import { abortError } from '../../../../base/async/deadline.js';
import { invalid, ShoalError } from '../../../../base/errors/errors.js';
import type { PauseOptions } from '../../../../distributed/checkpoint/protocol/save.js';
import { StepTimes } from './step-limit.js';

export type GatePause = Omit<PauseOptions, 'signal' | 'token'> & Partial<Pick<PauseOptions, 'token'>>;

interface Pause {
  readonly token: string | undefined;
  readonly holds: boolean;
  readonly atStep: number | undefined;
  /** The last global step that was read during the pause. */
  seenStep: number | undefined;
  isComplete: boolean;
  readonly timer: NodeJS.Timeout;
  /** Settle the promise that `pause` returned. */
  readonly resolve: () => void;
  readonly reject: (error: ShoalError) => void;
}

export class StepGate {
  /** The durations of the steps of this task, from which the time to pause is derived. */
  readonly times = new StepTimes();
  /** The newest pause. */
  #pause: Pause | undefined;
  /** Earlier pauses that are complete and hold. */
  readonly #held = new Set<Pause>();
  #underWay = 0;
  /** Steps whose outcome is not known. */
  #unsettled = 0;
  /** Whether this task makes no more steps. */
  #hasEnded = false;
  readonly #waiting = new Set<() => void>();

  /** The number of running steps: entered, not left. */
  get underWay(): number {
    return this.#underWay;
  }

  get paused(): boolean {
    return this.#pause !== undefined || this.#held.size > 0;
  }

  /** Whether the gate needs the global step, from `stepReporter`, to decide whether steps may pass. */
  get needsStep(): boolean {
    return this.#held.size === 0 && this.#pause?.atStep !== undefined;
  }

  /**
   * Resolves to true when a step may begin; it counts as running until `leave`. Resolves to false if the global step has
   * to be reported first.
   */
  async enter(signal?: AbortSignal): Promise<boolean> {
    this.#hasEnded = false;
    while (!this.#isOpen()) await this.#change(signal);
    if (signal?.aborted) throw abortError('A training step', signal);
    if (this.needsStep && this.#pause?.seenStep === undefined) return false;
    this.#underWay += 1;
    return true;
  }

  leave(): void {
    if (this.#underWay === 0) throw invalid('StepGate.leave was called for a step that did not enter');
    this.#underWay -= 1;
    this.#settle();
  }

  /**
   * Begins a step whose outcome matters to a snapshot: until the returned function is called no pause is complete, even
   * if the step has failed and left. A failed step may be applied on some ps only.
   */
  hold(): () => void {
    this.#unsettled += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#unsettled -= 1;
      this.#settle();
    };
  }

  /** This task makes no more steps: a pause at a step does not wait for them. */
  ended(): void {
    this.#hasEnded = true;
    this.#settle();
  }

  /**
   * Returns the function that reports a global step, which is to be read after this call: a pause that begins later
   * ignores it, and so does one that is complete.
   */
  stepReporter(): (step: number) => void {
    const pause = this.#pause;
    return (step) => {
      if (!pause || pause !== this.#pause || pause.isComplete) return;
      pause.seenStep = step;
      this.#settle();
      this.#wake();
    };
  }

  /** Resolves when no step is running, and none will begin before `resume` or the end of the lease. */
  pause({ atStep, leaseMs, token, holds = false }: GatePause): Promise<void> {
    if (!(leaseMs > 0)) throw invalid(`leaseMs must be greater than 0; it is ${leaseMs}`);
    const before = this.#pause;
    if (before?.holds && before.isComplete) this.#held.add(before);
    else if (before) this.#end(before, 'another pause replaced this one');
    return new Promise((resolve, reject) => {
      const expire = () => this.#end(pause, `the lease of ${leaseMs} ms expired`);
      const timer = setTimeout(expire, leaseMs);
      const state = { seenStep: undefined, isComplete: false };
      const pause: Pause = { token, holds, atStep, ...state, timer, resolve, reject };
      this.#pause = pause;
      this.#settle();
      // Steps blocked by the previous pause may have to pass to reach `atStep`.
      this.#wake();
    });
  }

  /** Ends the pause of this token; default: all of them. Does nothing without one: its lease may have expired first. */
  resume(token?: string): void {
    for (const pause of this.#pauses) {
      if (token === undefined || pause.token === token)
        this.#end(pause, 'training was resumed before all steps were paused');
    }
  }

  /** Whether the pause of this token has not ended. */
  has(token: string): boolean {
    return this.#pauses.some((pause) => pause.token === token);
  }

  get #pauses(): readonly Pause[] {
    return [...this.#held, ...(this.#pause ? [this.#pause] : [])];
  }

  #isOpen(): boolean {
    if (this.#held.size > 0) return false;
    if (!this.#pause) return true;
    const { atStep, seenStep, isComplete } = this.#pause;
    if (atStep === undefined || isComplete) return false;
    return !this.#hasEnded && (seenStep === undefined || seenStep < atStep);
  }

  #settle(): void {
    const isQuiet = this.#underWay === 0 && this.#unsettled === 0;
    if (!this.#pause || !isQuiet || this.#isOpen()) return;
    this.#pause.isComplete = true;
    this.#pause.resolve();
  }

  #end(pause: Pause, why: string): void {
    clearTimeout(pause.timer);
    this.#held.delete(pause);
    if (this.#pause === pause) this.#pause = undefined;
    const at = pause.atStep === undefined ? '' : ` at step ${pause.atStep}`;
    const failed = this.#unsettled - this.#underWay;
    const steps = `${this.#underWay} steps are running${failed > 0 ? `, ${failed} failed and may be partially applied` : ''}`;
    pause.reject(new ShoalError('SHOAL_TIMEOUT', `Training did not pause${at}, ${steps}: ${why}`));
    this.#wake();
  }

  #wake(): void {
    const woken = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of woken) wake();
  }

  #change(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(abortError('A training step', signal));
        return;
      }
      const wake = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = () => {
        this.#waiting.delete(wake);
        reject(abortError('A training step', signal as AbortSignal));
      };
      this.#waiting.add(wake);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }
}
