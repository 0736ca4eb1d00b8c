/**
 * A global step that falls is an alarm: something has replaced the values of variables behind the chief's back, and a save
 * would make them the newest checkpoint. From then on nothing is saved, exported or removed, on any task, until a chief
 * starts again, which restores the newest checkpoint (see readiness).
 *
 * Only the chief restores and initializes variables, and it reports both here. Each read of the global step is compared with
 * those that had ended before it began: reads may overlap, and steps only add to it.
 */
import { isShoalError, ShoalError } from '../../../../base/errors/errors.js';

const MOST_EVENTS = 3;

export class StepAlarm {
  readonly #listeners = new Set<(error: ShoalError) => void>();
  /** The highest step of each counter that was read since the last restore or initialization. */
  #highest = new WeakMap<object, number>();
  /** Counts restores and initializations: reads that overlap one compare with nothing. */
  #resets = 0;
  /** What happened in the cluster since the last read. */
  #events: string[] = [];
  #error: ShoalError | undefined;

  /** The error, once the step has fallen. */
  get error(): ShoalError | undefined {
    return this.#error;
  }

  onRaised(listener: (error: ShoalError) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The chief restores or initializes variables, or has done so: the next step may be lower. */
  reset(): void {
    this.#resets += 1;
    this.#highest = new WeakMap();
  }

  /** Something happened that may be the cause of a fall. */
  note(event: string): void {
    this.#events = [...this.#events, event].slice(-MOST_EVENTS);
  }

  /** Reads the global step; rejects if it has fallen, now or before. `counter` is the variable that counts it. */
  async read(counter: object, read: () => Promise<number>): Promise<number> {
    this.throwIfRaised();
    const [highest, resets] = [this.#highest.get(counter), this.#resets];
    const step = await read();
    this.throwIfRaised();
    if (resets !== this.#resets) return step;
    if (highest !== undefined && step < highest) throw this.raise(fallen(highest, step, this.#events));
    this.#highest.set(counter, Math.max(this.#highest.get(counter) ?? step, step));
    this.#events = [];
    return step;
  }

  throwIfRaised(): void {
    if (this.#error) throw this.#error;
  }

  /** The step has fallen, as seen here or by the chief. */
  raise(error: ShoalError): ShoalError {
    if (this.#error) return this.#error;
    this.#error = error;
    for (const listener of [...this.#listeners]) listener(error);
    return error;
  }

  /** Training begins again: another chief leads it, or this one starts over. */
  clear(): void {
    this.#error = undefined;
    this.reset();
  }
}

/** Whether an error is an alarm of a fallen step. */
export const isStepAlarm = (error: unknown): boolean => isShoalError(error, 'SHOAL_STEP_FELL');

export const stepFell = (message: string): ShoalError =>
  new ShoalError('SHOAL_STEP_FELL', message, {
    hint: 'All checkpoints are kept, and nothing is saved any more. Find what has set the global step: an assignment or an init op of the program, or a process of an earlier run. Then start the chief again: it restores the newest checkpoint.',
  });

function fallen(before: number, now: number, events: readonly string[]): ShoalError {
  const cause =
    events.length > 0
      ? `since the last read ${events.join('; ')}`
      : 'no task was lost or replaced since the last read, so a run of a task of this cluster has set it';
  return stepFell(
    `The global step fell from ${before} to ${now}, but the chief has neither restored nor initialized variables (${cause})`,
  );
}
