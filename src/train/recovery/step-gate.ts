/**
 * The gate that every training step of a task goes through. Who wants all steps to rest, for a cut, parks it: steps
 * under way end, others wait in front. A park is a lease and ends by itself, so that a chief which died never holds
 * a worker.
 *
 * Steps of synchronous training wait for each other's gradients. There a park names the step at which all rest:
 * until it is reached, steps go through.
 */
import { abortError } from '../../async/deadline.js';
import { invalid, ShoalError } from '../../errors/errors.js';
import { StepTimes } from './step-limit.js';

export interface ParkOptions {
  /** Synchronous training: rest when the global step is here, not before. */
  readonly atStep?: number;
  /** How long the park lasts if nobody ends it. */
  readonly leaseMs: number;
}

interface Park {
  readonly atStep: number | undefined;
  readonly timer: NodeJS.Timeout;
  /** Resolves or rejects the call of `park`; does nothing once it has settled. */
  readonly resolve: () => void;
  readonly reject: (error: ShoalError) => void;
}

export class StepGate {
  /** How long the steps of this task take: who waits for them to pause must know. */
  readonly times = new StepTimes();
  #park: Park | undefined;
  #underWay = 0;
  #seenStep: number | undefined;
  readonly #waiting = new Set<() => void>();

  /** Steps that have entered and not left. */
  get underWay(): number {
    return this.#underWay;
  }

  get parked(): boolean {
    return this.#park !== undefined;
  }

  /** Whether the gate must be told the global step to know who may go through. */
  get wantsStep(): boolean {
    return this.#park?.atStep !== undefined;
  }

  /** The highest global step that was told of. */
  get seenStep(): number | undefined {
    return this.#seenStep;
  }

  /** Resolves when a step may begin, which then counts as under way until `leave`. */
  async enter(signal?: AbortSignal): Promise<void> {
    while (!this.#isOpen()) await this.#change(signal);
    if (signal?.aborted) throw abortError('A training step', signal);
    this.#underWay += 1;
  }

  leave(): void {
    if (this.#underWay === 0) throw invalid('A step has left the gate that did not enter it');
    this.#underWay -= 1;
    this.#settle();
  }

  /** Tells the global step as it was read. After a restore it may be lower than before. */
  saw(step: number): void {
    this.#seenStep = step;
    this.#settle();
    this.#wake();
  }

  /** Resolves when no step is under way and none will begin before `resume` or the end of the lease. */
  park({ atStep, leaseMs }: ParkOptions): Promise<void> {
    if (!(leaseMs > 0)) throw invalid(`A park needs a lease in milliseconds; ${leaseMs} is none`);
    this.#end('another park has taken its place');
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#end(`its lease of ${leaseMs} ms is over`), leaseMs);
      this.#park = { atStep, timer, resolve, reject };
      this.#settle();
      // A step that rested under another park may have to go on to reach this one's step.
      this.#wake();
    });
  }

  /** Lets steps through. Without a park it does nothing: the lease may have ended first. */
  resume(): void {
    this.#end('it was ended before all steps rested');
  }

  #isOpen(): boolean {
    if (!this.#park) return true;
    const { atStep } = this.#park;
    return atStep !== undefined && (this.#seenStep === undefined || this.#seenStep < atStep);
  }

  #settle(): void {
    if (this.#park && this.#underWay === 0 && !this.#isOpen()) this.#park.resolve();
  }

  #end(why: string): void {
    const park = this.#park;
    if (!park) return;
    clearTimeout(park.timer);
    this.#park = undefined;
    const at = park.atStep === undefined ? '' : ` at step ${park.atStep}`;
    park.reject(
      new ShoalError('SHOAL_TIMEOUT', `Steps were to rest${at}, but ${this.#underWay} are under way: ${why}`),
    );
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
