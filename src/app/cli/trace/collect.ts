/**
 * Traces the tasks of a cluster until each worker has made some steps: asks every task, several times per second, for what
 * it has done. A task that does not answer delays nobody.
 */
import { randomUUID } from 'node:crypto';
import { sleep } from '../../../base/async/deadline.js';
import { firstLineOf, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { AgentClient } from '../../../distributed/cluster/agent/agent-client.js';
import type { ClusterStatus } from '../../../distributed/cluster/agent/wire.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { readTrace } from '../../../distributed/cluster/runtime/trace-operation.js';
import type { Security } from '../../../distributed/cluster/spec/security.js';
import { compareTasks, type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import type { TaskTraceEvent } from '../../../distributed/engine/trace/task-trace.js';
import { Clocks } from './clocks.js';

export interface CollectOptions {
  readonly status: ClusterStatus;
  readonly security: Security;
  readonly steps: number;
  readonly timeoutMs: number;
  /** Ends the trace; what was collected is returned. */
  readonly stop: AbortSignal;
}

export interface CollectedTask {
  readonly task: TaskId;
  readonly host: string;
  readonly events: readonly TaskTraceEvent[];
  /** By its clock, a moment from which all tasks were traced. */
  readonly marked: number;
  /** The steps that it has made since then. */
  readonly steps: number;
  /** Events that did not fit into its memory. */
  readonly dropped: number;
}

export interface Collection {
  readonly tasks: readonly CollectedTask[];
  /** The tasks that did not answer, or not until the end, and why. */
  readonly silent: readonly { readonly task: TaskId; readonly why: string }[];
  readonly clocks: Clocks;
  readonly end: 'steps' | 'time' | 'stopped' | 'full';
}

/** The clock of this command, to which those of the tasks are aligned. */
export const OWN_CLOCK = 'shoal trace';

const POLL_MS = 200;
const ANSWER_MS = 2000;
/** Of all tasks together, in the memory of this command. */
const MOST_EVENTS = 500_000;

/** A trace that can show nothing is not begun. */
const FATAL = ['SHOAL_UNSUPPORTED', 'SHOAL_FORBIDDEN', 'SHOAL_ALREADY_EXISTS'] as const;

export async function collectTrace(options: CollectOptions): Promise<Collection> {
  const { status, security, stop } = options;
  const trace = randomUUID();
  const clocks = new Clocks();
  const readers = status.members
    .filter((member) => isPresent(member.status))
    .sort((a, b) => compareTasks(a.task, b.task))
    .map(({ task, host, agentAddress: address }) => {
      const client = new AgentClient({ address, task, security, cluster: status.cluster });
      return new TaskReader(client, { task, host, trace, clocks });
    });
  try {
    const failures = await Promise.all(readers.map((reader) => reader.read({ more: true })));
    const fatal = failures.find((failure) => FATAL.some((code) => isShoalError(failure, code)));
    if (fatal) throw fatal;
    const reached = readers.filter(({ hasAnswered }) => hasAnswered);
    if (reached.length === 0 && !stop.aborted) throw nobodyAnswers(failures);
    const end = await readUntilEnd(reached, options);
    await Promise.all(reached.map((reader) => reader.read({ more: false })));
    const gone = status.members.filter((member) => member.status === 'dead');
    return {
      tasks: reached.map((reader) => reader.result()),
      silent: [
        ...gone.map(({ task }) => ({ task, why: 'it is dead' })),
        ...readers.flatMap(({ task, failure }) => (failure ? [{ task, why: firstLineOf(failure) }] : [])),
      ],
      clocks,
      end,
    };
  } finally {
    for (const { client } of readers) client.close();
  }
}

function nobodyAnswers(failures: readonly unknown[]): ShoalError {
  const lines = failures.map((failure) => `\n  ${firstLineOf(failure)}`);
  return new ShoalError('SHOAL_UNREACHABLE', `no task can be traced:${lines.join('')}`, {
    hint: 'A trace is asked for at every task, at the address that `shoal status --verbose` shows.',
  });
}

/** Reads all tasks again and again until the trace has what it is for. */
async function readUntilEnd(
  readers: readonly TaskReader[],
  { steps, timeoutMs, stop }: CollectOptions,
): Promise<Collection['end']> {
  const done = new AbortController();
  let end: Collection['end'] = 'time';
  const finish = (why: Collection['end']) => {
    if (done.signal.aborted) return;
    end = why;
    done.abort();
  };
  const onStop = () => finish('stopped');
  if (stop.aborted) onStop();
  stop.addEventListener('abort', onStop, { once: true });
  const timer = setTimeout(() => finish('time'), timeoutMs);
  const check = () => {
    const workers = readers.filter(({ task, failure }) => trains(task) && failure === undefined);
    if (workers.length > 0 && workers.every((worker) => worker.steps >= steps)) finish('steps');
    if (readers.reduce((sum, { events }) => sum + events.length, 0) >= MOST_EVENTS) finish('full');
  };
  const keepReading = async (reader: TaskReader) => {
    while (!done.signal.aborted) {
      await reader.read({ more: true, signal: done.signal });
      reader.mark();
      check();
      await sleep(POLL_MS, done.signal).catch(() => {});
    }
  };
  try {
    await Promise.all(readers.map(keepReading));
  } finally {
    clearTimeout(timer);
    stop.removeEventListener('abort', onStop);
  }
  return end;
}

interface TaskReaderParts {
  readonly task: TaskId;
  readonly host: string;
  readonly trace: string;
  readonly clocks: Clocks;
}

class TaskReader {
  readonly task: TaskId;
  readonly client: AgentClient;
  readonly events: TaskTraceEvent[] = [];
  readonly #parts: TaskReaderParts;
  #after = 0;
  #clock: number | undefined;
  #marked: number | undefined;
  #dropped = 0;
  #counted = 0;
  #steps = 0;
  #failure: unknown;

  constructor(client: AgentClient, parts: TaskReaderParts) {
    this.client = client;
    this.task = parts.task;
    this.#parts = parts;
  }

  get hasAnswered(): boolean {
    return this.#clock !== undefined;
  }

  /** Why it does not answer; undefined if it does. */
  get failure(): unknown {
    return this.#failure;
  }

  /** From here on all tasks are traced. */
  mark(): void {
    this.#marked ??= this.#clock;
  }

  /** The steps that it has made since the mark. */
  get steps(): number {
    if (this.#marked === undefined) return 0;
    for (; this.#counted < this.events.length; this.#counted++)
      if (isStep(this.events[this.#counted] as TaskTraceEvent, this.#marked)) this.#steps += 1;
    return this.#steps;
  }

  /** Reads all events that the task has, and returns why it does not answer. */
  async read({ more, signal }: { readonly more: boolean; readonly signal?: AbortSignal }): Promise<unknown> {
    const { trace, clocks, task } = this.#parts;
    try {
      for (;;) {
        const sent = now();
        const question = { trace, after: this.#after, more };
        const answer = await readTrace(this.client, question, { timeoutMs: ANSWER_MS, signal });
        clocks.message(OWN_CLOCK, sent, task, answer.clock);
        clocks.message(task, answer.clock, OWN_CLOCK, now());
        for (const event of answer.events) this.events.push(event);
        this.#after = answer.next;
        this.#dropped = answer.dropped;
        this.#clock = answer.clock;
        this.#failure = undefined;
        if (!answer.hasMore) return undefined;
      }
    } catch (error) {
      if (signal?.aborted) return undefined;
      this.#failure = error;
      return error;
    }
  }

  result(): CollectedTask {
    const { task, host } = this.#parts;
    // Without a mark the trace has ended at once.
    const marked = this.#marked ?? (this.#clock as number);
    return { task, host, events: this.events, marked, steps: this.steps, dropped: this.#dropped };
  }
}

export const isStep = (event: TaskTraceEvent, since: number): boolean =>
  event.kind === 'span' && event.row === 'steps' && event.error === undefined && event.from >= since;

const now = (): number => Math.round(performance.now() * 1000);
