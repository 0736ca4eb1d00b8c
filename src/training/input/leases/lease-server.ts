/**
 * The chief's server of data shard leases: workers request leases and report what they consumed. It passes the loss of
 * a worker to the ledger only after it knows the outcome of the worker's last steps.
 *
 * A worker begins a lease session. It ends when the worker is lost, when it begins another one, and when all tasks
 * restore a checkpoint. A request with an ended session is answered `void`: the worker must begin again. The ps also
 * reject steps of an ended session: see step-marks.
 */

import { backoffMs } from '../../../base/async/backoff.js';
import { sleep } from '../../../base/async/deadline.js';
import { describeError, firstLineOf, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Fence, Lease, LedgerSnapshot } from './ledger.js';
import type { LedgerHost } from './ledger-host.js';
import type { StepMark, StepOutcome } from './step-marks.js';

export type NextAnswer =
  | { readonly type: 'lease'; readonly lease: Lease }
  /** No lease is available now. */
  | { readonly type: 'wait' }
  /** There are no more leases. */
  | { readonly type: 'end' }
  /** The worker must begin a new session. */
  | { readonly type: 'void' };

export interface NextQuestion {
  readonly leaseSession: string;
  /** Grows with each request: an outdated one gets no lease. */
  readonly turn: number;
  readonly holding: readonly number[];
  readonly waitMs: number;
}

export interface DoneReport {
  readonly leaseSession: string;
  readonly lease: number;
  readonly from: number;
  readonly upTo: number;
}

/** The lease server as workers use it, locally or remotely. */
export interface LeaseEndpoint {
  begin(worker: string, signal?: AbortSignal): Promise<string>;
  next(worker: string, question: NextQuestion, signal?: AbortSignal): Promise<NextAnswer>;
  /** Whether the report was accepted; if not, the worker must begin a new session. */
  done(worker: string, report: DoneReport, signal?: AbortSignal): Promise<boolean>;
}

/** The part of the marks on the ps that the server needs. */
export interface Marks {
  open(worker: string, fence: Fence, signal?: AbortSignal): Promise<void>;
  /** Rejects steps of these workers; resolves when all previously admitted steps have been applied. */
  close(workers: readonly string[], signal?: AbortSignal): Promise<void>;
  lastSteps(worker: string, held: readonly number[], signal?: AbortSignal): Promise<StepOutcome>;
}

export interface LeaseServerOptions {
  readonly host: LedgerHost;
  /** Absent if the model is lost with its worker. */
  readonly marks?: Marks;
  /** All workers that may have running steps, including those of an earlier chief. */
  readonly workers: () => readonly string[] | Promise<readonly string[]>;
  /**
   * Restores a consistent state of model and ledger after a lost worker's step was partially applied. Default: such a
   * step counts as consumed.
   */
  readonly rewind?: (why: string) => Promise<void>;
  /** Distinguishes sessions of this server from those of an earlier chief. */
  readonly sessionPrefix: string;
  readonly signal: AbortSignal;
  readonly log: Log;
}

interface LeaseSession {
  readonly name: string;
  readonly incarnation: number;
  turn: number;
}

export class LeaseServer implements LeaseEndpoint {
  readonly #options: LeaseServerOptions;
  readonly #sessions = new Map<string, LeaseSession>();
  /** Lost workers whose last steps are being determined. */
  readonly #settling = new Map<string, Promise<void>>();
  /** Lost workers of which it was not found out what they consumed. */
  readonly #unknown = new Set<string>();
  readonly #wakes = new Set<() => void>();
  #count = 0;
  /** Counts pauses: work begun before a pause is void after it. */
  #era = 0;
  #isOpen = false;

  constructor(options: LeaseServerOptions) {
    this.#options = options;
  }

  /** Ends all sessions: no lease is granted and no step applied until `resume`. */
  async pause(): Promise<void> {
    const { marks, workers, signal } = this.#options;
    this.#isOpen = false;
    this.#era += 1;
    const begun = [...this.#sessions.keys()];
    this.#sessions.clear();
    this.#wake();
    await marks?.close([...new Set([...(await workers()), ...begun])], signal);
  }

  resume(): void {
    this.#isOpen = true;
    this.#wake();
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  begin(worker: string, signal?: AbortSignal): Promise<string> {
    return this.beginIncarnation(worker, 0, signal);
  }

  /** @param incarnation of the worker: the loss of an earlier incarnation does not end this session. */
  async beginIncarnation(worker: string, incarnation: number, signal?: AbortSignal): Promise<string> {
    const { host, marks } = this.#options;
    for (;;) {
      await this.#until(() => this.#isOpen, signal);
      const era = this.#era;
      this.#sessions.delete(worker);
      await this.#settle(worker);
      signal?.throwIfAborted();
      if (era !== this.#era) continue;
      await marks?.open(worker, host.fence, this.#options.signal);
      if (era !== this.#era) continue;
      this.#count += 1;
      const name = `${this.#options.sessionPrefix}.${this.#count}`;
      this.#sessions.set(worker, { name, incarnation, turn: 0 });
      return name;
    }
  }

  async next(worker: string, question: NextQuestion, signal?: AbortSignal): Promise<NextAnswer> {
    const { host } = this.#options;
    const leaseSession = this.#sessions.get(worker);
    if (!leaseSession || leaseSession.name !== question.leaseSession) return { type: 'void' };
    // Its holding list is outdated: applying it would take back later leases.
    if (question.turn <= leaseSession.turn) return { type: 'wait' };
    leaseSession.turn = question.turn;
    let lease: Lease | undefined;
    const asked = host.next(worker, question.holding).then((given) => {
      lease = given;
      return 'answered';
    });
    const late = this.#until(() => this.#sessions.get(worker) !== leaseSession, signal, question.waitMs).then(
      () => 'late',
      () => 'late',
    );
    await Promise.race([asked, late]);
    if (this.#sessions.get(worker) !== leaseSession) return { type: 'void' };
    if (lease) return { type: 'lease', lease };
    return host.isOver || host.isFinished ? { type: 'end' } : { type: 'wait' };
  }

  async done(worker: string, { leaseSession, lease, from, upTo }: DoneReport): Promise<boolean> {
    if (this.#sessions.get(worker)?.name !== leaseSession) return false;
    this.#options.host.done(worker, lease, upTo, from);
    return true;
  }

  /** A worker is dead or has left: its unconsumed records are reassigned. */
  lost(worker: string, incarnation: number): void {
    const leaseSession = this.#sessions.get(worker);
    if (leaseSession && leaseSession.incarnation > incarnation) return;
    this.#sessions.delete(worker);
    this.#wake();
    this.#settle(worker).catch((error: unknown) => {
      if (!this.#options.signal.aborted)
        this.#options.log(
          `the leases of ${worker} could not be reassigned: ${describeError(error)}`,
          'error',
        );
    });
  }

  /** Determines the outcome of a worker's last steps and takes its leases back. One at a time per worker. */
  #settle(worker: string): Promise<void> {
    const known = this.#settling.get(worker);
    if (known) return known;
    this.#unknown.add(worker);
    const settling = this.#findOut(worker)
      .then(() => void this.#unknown.delete(worker))
      .finally(() => {
        this.#settling.delete(worker);
        this.#wake();
      });
    this.#settling.set(worker, settling);
    return settling;
  }

  async #findOut(worker: string): Promise<void> {
    const { host, marks, signal, log } = this.#options;
    for (let attempt = 0; marks && host.held(worker).length > 0; attempt++) {
      signal.throwIfAborted();
      const era = this.#era;
      try {
        await marks.close([worker], signal);
        const steps = await marks.lastSteps(worker, host.held(worker), signal);
        if (era !== this.#era) continue;
        await this.#judge(worker, steps);
        break;
      } catch (error) {
        // A ps is unreachable. When it returns all tasks restore a checkpoint, and these leases are void.
        if (attempt === 0)
          log(`the outcome of the last steps of ${worker} is not known yet: ${firstLineOf(error)}`);
        await sleep(backoffMs(attempt, { baseMs: 100, maxMs: 2000 }), signal);
      }
    }
    host.lost(worker);
  }

  async #judge(worker: string, { applied, partial }: StepOutcome): Promise<void> {
    const { host, log, rewind } = this.#options;
    const consumed = (mark: StepMark) => host.done(worker, mark.lease, mark.to, mark.from);
    for (const mark of applied) consumed(mark);
    if (partial.length === 0) return;
    const what = `${partial.length} of the last steps of ${worker} were partially applied`;
    if (rewind) {
      await rewind(what);
      return;
    }
    log(`${what}; their records count as consumed`);
    for (const mark of partial) consumed(mark);
  }

  /** Resolves when it is known what all lost workers consumed. */
  settled(signal?: AbortSignal): Promise<void> {
    return this.#until(() => this.#settling.size === 0, signal);
  }

  /** The ledger for a checkpoint; all workers must be paused. */
  snapshot(): LedgerSnapshot {
    if (this.#unknown.size > 0 || !this.#isOpen) {
      const whom = [...this.#unknown].join(', ');
      throw new ShoalError(
        'SHOAL_ABORTED',
        whom === ''
          ? 'The input is being restored from a checkpoint'
          : `It is not known yet what input ${whom} consumed`,
        { hint: 'The next checkpoint will include it.' },
      );
    }
    return this.#options.host.snapshot();
  }

  #wake(): void {
    for (const wake of [...this.#wakes]) wake();
  }

  /** Waits until the condition holds, checking it on each wake; at most `ms`. */
  #until(condition: () => boolean, signal?: AbortSignal, ms?: number): Promise<void> {
    const signals = [this.#options.signal, ...(signal ? [signal] : [])];
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const look = () => {
        if (condition()) return end();
        const aborted = signals.find((one) => one.aborted);
        if (aborted) end(aborted);
      };
      const end = (aborted?: AbortSignal) => {
        clearTimeout(timer);
        this.#wakes.delete(look);
        for (const one of signals) one.removeEventListener('abort', look);
        if (aborted) reject(new ShoalError('SHOAL_ABORTED', 'A wait for leases was aborted'));
        else resolve();
      };
      this.#wakes.add(look);
      for (const one of signals) one.addEventListener('abort', look, { once: true });
      if (ms !== undefined) timer = setTimeout(end, ms);
      look();
    });
  }
}
