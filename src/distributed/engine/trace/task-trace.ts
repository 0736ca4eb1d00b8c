/**
 * What a task does while somebody traces it: its runs, its calls to other tasks, the stages that it runs for itself and
 * others. While nobody does, each of them costs one test of `isOn`.
 *
 * Memory is bounded: events wait until they have been read, at most `MOST_EVENTS`; further ones are counted and dropped.
 * A reader that does not come back within `LEASE_MS` ends the trace.
 */
import { ShoalError } from '../../../base/errors/errors.js';

/** Times are in microseconds of a monotonic clock of the process, which begins anywhere. */
interface Timed {
  readonly from: number;
  readonly to: number;
  /** The code of the error with which it ended. */
  readonly error?: string | undefined;
}

/** A training step, a run of a session, or work beside the steps such as a save. */
export interface TracedSpan extends Timed {
  readonly kind: 'span';
  readonly row: 'steps' | 'runs' | 'training';
  readonly what: string;
  /** The number of the run. */
  readonly run?: number | undefined;
}

/** A stage on another task, from the request until the reply. */
export interface TracedCall extends Timed {
  readonly kind: 'call';
  /** The task that runs the stage. */
  readonly task: string;
  /** The number of the call on its connection. */
  readonly call: number;
  readonly run: number;
  readonly stage: string;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** A stage in the session of this task, from its request until its result. */
export interface TracedStage extends Timed {
  readonly kind: 'stage';
  readonly stage: string;
  /** The task whose run it belongs to. */
  readonly caller: string;
  /** The number of the caller's call; for a stage of this task itself, of the run. */
  readonly call: number;
  /** What it waited for, and until when. */
  readonly waitedFor?: string | undefined;
  readonly waited?: number | undefined;
  /** When TensorFlow began with it; before, it waited for a thread. */
  readonly begun?: number | undefined;
}

export type TaskTraceEvent = TracedSpan | TracedCall | TracedStage;

/** A stage that is running, as long as it is traced. */
export interface OpenStage {
  readonly from: number;
  waitedFor?: string;
  waited?: number;
  begun?: number;
}

export interface TraceQuestion {
  /** Identifies the trace: a task has one at a time. */
  readonly trace: string;
  /** The number of events that the reader has. */
  readonly after: number;
  /** Whether the trace continues. */
  readonly more: boolean;
}

export interface TraceAnswer {
  /** The time of the answer by the clock of the events. */
  readonly clock: number;
  readonly events: readonly TaskTraceEvent[];
  /** The number of events up to the last one of these. */
  readonly next: number;
  /** Whether there are further events already. */
  readonly hasMore: boolean;
  /** Events that did not fit into memory. */
  readonly dropped: number;
}

const MOST_EVENTS = 50_000;
/** In one answer: writing it blocks the task. */
const MOST_SENT = 5000;
const LEASE_MS = 5000;

export interface TaskTraceOptions {
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number;
  readonly mostEvents?: number;
  readonly leaseMs?: number;
}

export class TaskTrace {
  /** Whether events are recorded. */
  isOn = false;
  readonly #clock: () => number;
  readonly #mostEvents: number;
  readonly #leaseMs: number;
  #trace: string | undefined;
  #events: TaskTraceEvent[] = [];
  /** The number of events that were read and forgotten. */
  #read = 0;
  #dropped = 0;
  #lease: NodeJS.Timeout | undefined;

  constructor({
    now = () => performance.now(),
    mostEvents = MOST_EVENTS,
    leaseMs = LEASE_MS,
  }: TaskTraceOptions = {}) {
    this.#clock = now;
    this.#mostEvents = mostEvents;
    this.#leaseMs = leaseMs;
  }

  now(): number {
    return Math.round(this.#clock() * 1000);
  }

  add(event: TaskTraceEvent): void {
    if (!this.isOn) return;
    if (this.#events.length < this.#mostEvents) this.#events.push(event);
    else this.#dropped += 1;
  }

  /** Adds a span that ends now. */
  span(row: TracedSpan['row'], what: string, ms: number): void {
    const to = this.now();
    this.add({ kind: 'span', row, what, from: to - Math.round(ms * 1000), to });
  }

  /** Starts a trace or continues it, and returns the events that the reader does not have. */
  read({ trace, after, more }: TraceQuestion): TraceAnswer {
    if (this.#trace !== undefined && this.#trace !== trace)
      throw new ShoalError('SHOAL_ALREADY_EXISTS', 'another command traces this task', {
        hint: 'Wait for its end. A command that was killed counts as ended after a few seconds.',
      });
    if (this.#trace === undefined && after > 0)
      throw new ShoalError(
        'SHOAL_NOT_FOUND',
        'the trace of this task has ended: it was not read for seconds',
      );
    this.#trace = trace;
    this.isOn = more;
    const known = Math.max(0, after - this.#read);
    this.#events.splice(0, known);
    this.#read += known;
    const events = this.#events.slice(0, MOST_SENT);
    const hasMore = events.length < this.#events.length;
    const answer = {
      clock: this.now(),
      events,
      next: this.#read + events.length,
      hasMore,
      dropped: this.#dropped,
    };
    clearTimeout(this.#lease);
    if (!more && !hasMore) this.end();
    else this.#lease = setTimeout(() => this.end(), this.#leaseMs).unref();
    return answer;
  }

  /** Ends the trace and forgets its events. */
  end(): void {
    clearTimeout(this.#lease);
    this.isOn = false;
    this.#trace = undefined;
    this.#events = [];
    this.#read = 0;
    this.#dropped = 0;
  }
}

/** A stage as traces name it: by what it computes for others. */
export function stageName({
  targets,
  outputs,
}: {
  targets: readonly string[];
  outputs: readonly string[];
}): string {
  const names = [...new Set([...targets, ...outputs.map((output) => output.replace(/:\d+$/, ''))])];
  return `${names.slice(0, 2).join(', ')}${names.length > 2 ? ` +${names.length - 2}` : ''}`;
}
