/**
 * When to save. A policy decides about one occasion; a schedule asks its policies, and `ScheduledWork` saves in the
 * background when one of them says so. Jobs, hooks and supervisors save by these; exports and evaluations of a job that
 * recur do too.
 */

export type Occasion = 'step' | 'time' | 'end' | 'leaving';

export interface Moment {
  /** Undefined: it cannot be read. */
  readonly step: number | undefined;
  /** Of a monotonic clock. */
  readonly atMs: number;
}

/** What was saved before. */
export interface SavedBefore {
  /** When the last save began, or training. */
  readonly begun: Moment;
  /** The step of the newest checkpoint, if that is known. */
  readonly savedStep?: number | undefined;
}

export interface SavePolicy {
  isDue(occasion: Occasion, now: Moment, before: SavedBefore): boolean;
  /** The time until it is due without a further step; default: never. */
  dueInMs?(now: Moment, before: SavedBefore): number;
}

const isRegular = (occasion: Occasion): boolean => occasion === 'step' || occasion === 'time';

export function everySecs(secs: number): SavePolicy {
  const dueInMs = (now: Moment, { begun }: SavedBefore) => begun.atMs + secs * 1000 - now.atMs;
  return {
    isDue: (occasion, now, before) =>
      (occasion === 'time' || (occasion === 'step' && now.step !== before.begun.step)) &&
      dueInMs(now, before) <= 0,
    dueInMs,
  };
}

/** After a restore the step may be before the last one: the distance counts in either direction. */
export const everySteps = (steps: number): SavePolicy => ({
  isDue: (occasion, { step = 0 }, { begun }) =>
    isRegular(occasion) && Math.abs(step - (begun.step ?? 0)) >= steps,
});

/** A step that cannot be read may not be saved. */
export const atEnd: SavePolicy = {
  isDue: (occasion, { step }, { savedStep }) =>
    occasion === 'end' && (step === undefined || step !== savedStep),
};

/** Before a ps leaves. */
export const whenLeaving: SavePolicy = { isDue: (occasion) => occasion === 'leaving' };

export interface Interval {
  /** Null: none; default: none. */
  readonly secs?: number | null | undefined;
  readonly steps?: number | null | undefined;
}

/** The policies of an interval in seconds, one in steps, or both. */
export const every = ({ secs, steps }: Interval): SavePolicy[] => [
  ...(secs != null && Number.isFinite(secs) ? [everySecs(secs)] : []),
  ...(steps == null ? [] : [everySteps(steps)]),
];

export class SaveSchedule {
  readonly #policies: readonly SavePolicy[];
  readonly #now: () => number;
  #begun: Moment;
  #retryAt: number | undefined;

  /** @param now a monotonic clock, in milliseconds. */
  constructor(policies: readonly SavePolicy[], now: () => number = () => performance.now()) {
    this.#policies = policies;
    this.#now = now;
    this.#begun = { step: undefined, atMs: now() };
  }

  /** Whether to save; a save that has failed is due again after its delay, and not before. */
  isDue(occasion: Occasion, step: number | undefined, savedStep?: number): boolean {
    const now = { step, atMs: this.#now() };
    if (this.#retryAt !== undefined && isRegular(occasion)) return now.atMs >= this.#retryAt;
    return this.#policies.some((policy) => policy.isDue(occasion, now, { begun: this.#begun, savedStep }));
  }

  /** A save begins, or training: intervals count from here. */
  begin(step: number | undefined): void {
    this.#begun = { step, atMs: this.#now() };
    this.#retryAt = undefined;
  }

  /** The save has ended. If it took longer than its interval, the next one counts from its end. */
  ended(): void {
    if (this.dueInMs <= 0) this.#begun = { ...this.#begun, atMs: this.#now() };
  }

  /** The save has failed, and is due again after this time. */
  retryIn(ms: number): void {
    this.#retryAt = this.#now() + ms;
  }

  /** The time until a save is due without a further step. */
  get dueInMs(): number {
    const now = { step: this.#begun.step, atMs: this.#now() };
    if (this.#retryAt !== undefined) return this.#retryAt - now.atMs;
    return Math.min(
      ...this.#policies.map((policy) => policy.dueInMs?.(now, { begun: this.#begun }) ?? Infinity),
    );
  }
}

/** The longest time of a timer. */
const MAX_MS = 2 ** 31 - 1;

/** Work in the background by a schedule, one at a time. */
export class ScheduledWork {
  readonly #schedule: SaveSchedule;
  readonly #work: () => Promise<void>;
  #step: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  /** Whether it has begun and not stopped. */
  #isOn = false;

  /** @param work handles its own failures. */
  constructor(schedule: SaveSchedule, work: () => Promise<void>) {
    this.#schedule = schedule;
    this.#work = work;
  }

  /** Starts the schedule at this step. */
  begin(step: number | undefined): void {
    this.#isOn = true;
    this.#step = step;
    this.#schedule.begin(step);
    this.#arm();
  }

  /** Reports the global step. */
  onStep(step: number): void {
    this.#step = step;
    if (this.#isOn && !this.#running && this.#schedule.isDue('step', step)) this.start();
  }

  /** Does the work now, unless it is in progress. */
  start(): void {
    this.#running ??= this.#do().finally(() => {
      this.#running = undefined;
      this.#arm();
    });
  }

  async #do(): Promise<void> {
    clearTimeout(this.#timer);
    this.#schedule.begin(this.#step);
    await this.#work();
    this.#schedule.ended();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const ms = this.#schedule.dueInMs;
    if (this.#isOn && ms < Infinity)
      this.#timer = setTimeout(() => this.#onTime(), Math.min(Math.max(0, ms), MAX_MS));
  }

  #onTime(): void {
    if (this.#schedule.isDue('time', this.#step)) this.start();
    else this.#arm();
  }

  /** The work in progress; it never rejects. */
  get running(): Promise<void> | undefined {
    return this.#running;
  }

  /** Stops the schedule; resolves when the work in progress has ended. */
  async stop(): Promise<void> {
    this.#isOn = false;
    clearTimeout(this.#timer);
    await this.#running;
  }
}
