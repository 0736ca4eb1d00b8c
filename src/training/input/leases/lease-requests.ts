/**
 * The lease protocol between tasks: the chief's handlers, and a worker's requests, which are repeated until the chief
 * answers.
 */
import * as v from 'valibot';
import { backoffMs } from '../../../base/async/backoff.js';
import { sleep, throwIfAborted } from '../../../base/async/deadline.js';
import { firstLineOf, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import type { Identity } from '../../../distributed/cluster/membership/map.js';
import type { TaskId } from '../../../distributed/cluster/spec/task-id.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';
import type { DoneReport, LeaseEndpoint, LeaseServer, NextAnswer, NextQuestion } from './lease-server.js';

const BEGIN = 'input-begin';
const NEXT = 'input-next';
const DONE = 'input-done';

/** Limits the time to answer: a connection that is idle for longer looks dead. */
const MAX_WAIT_MS = 30_000;
const UNKNOWN_MS = 200;

const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const LeaseSession = v.pipe(v.string(), v.maxLength(200));
const Wait = v.pipe(v.number(), v.minValue(0), v.maxValue(MAX_WAIT_MS));
const BeginSchema = v.object({ waitMs: Wait });
const NextSchema = v.object({
  leaseSession: LeaseSession,
  turn: Count,
  holding: v.pipe(v.array(Count), v.maxLength(10_000)),
  waitMs: Wait,
});
const DoneSchema = v.object({ leaseSession: LeaseSession, lease: Count, from: Count, upTo: Count });

const LeaseSchema = v.object({
  id: Count,
  term: Count,
  worker: v.string(),
  epoch: Count,
  shard: Count,
  file: v.string(),
  offset: Count,
  records: Count,
  bytes: v.optional(Count),
  size: v.optional(Count),
  from: Count,
  to: Count,
  seed: Count,
});
const BegunSchema = v.nullable(LeaseSession);
const AnswerSchema = v.variant('type', [
  v.object({ type: v.literal('lease'), lease: LeaseSchema }),
  v.object({ type: v.picklist(['wait', 'end', 'void']) }),
]);

/** Registers the handlers for other tasks; returns the function that removes them. */
export function serveLeases(task: ClusterTask, server: LeaseServer): () => void {
  const ends = [
    task.onRequest(BEGIN, async (payload, { from, signal }) => {
      const { waitMs } = validated(BeginSchema, payload, 'request');
      // A worker that is not a known member would not be paused for a checkpoint.
      const member = task.member(from.task);
      if (member?.status !== 'alive' || member.incarnation !== from.incarnation) {
        await sleep(UNKNOWN_MS, signal);
        return null;
      }
      const soon = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
      try {
        return await server.beginIncarnation(from.task, from.incarnation, soon);
      } catch (error) {
        // Timed out: the caller repeats the request.
        if (soon.aborted) return null;
        throw error;
      }
    }),
    task.onRequest(NEXT, (payload, { from, signal }) =>
      server.next(from.task, validated(NextSchema, payload, 'request'), signal),
    ),
    task.onRequest(DONE, (payload, { from }) =>
      server.done(from.task, validated(DoneSchema, payload, 'request')),
    ),
  ];
  return () => {
    for (const end of ends) end();
  };
}

export interface RemoteLeaseServerOptions {
  readonly log: (line: string) => void;
  /** Whether a chief that has left will be started again; default: never. */
  readonly returns?: (chief: Identity) => boolean;
  /** How long the chief may be unreachable before this worker fails; default: 300 s. */
  readonly patienceMs?: number;
}

const BEGIN_WAIT_MS = 10_000;
const CALL_MS = 10_000;
const LOG_EVERY_MS = 10_000;

/** The chief has left for good, which means that training is over. */
const OVER = Symbol('over');

/** The chief's lease server, called from another task. */
export class RemoteLeaseServer implements LeaseEndpoint {
  readonly #task: ClusterTask;
  readonly #chief: TaskId;
  readonly #options: RemoteLeaseServerOptions;

  constructor(task: ClusterTask, chief: TaskId, options: RemoteLeaseServerOptions) {
    this.#task = task;
    this.#chief = chief;
    this.#options = options;
  }

  async begin(_worker: string, signal?: AbortSignal): Promise<string> {
    for (;;) {
      const answer = await this.#ask(BEGIN, { waitMs: BEGIN_WAIT_MS }, BEGIN_WAIT_MS + CALL_MS, signal);
      const leaseSession = answer === OVER ? 'none' : validated(BegunSchema, answer, 'answer');
      if (leaseSession !== null) return leaseSession;
    }
  }

  async next(_worker: string, question: NextQuestion, signal?: AbortSignal): Promise<NextAnswer> {
    const answer = await this.#ask(NEXT, question, question.waitMs + CALL_MS, signal);
    return answer === OVER ? { type: 'end' } : validated(AnswerSchema, answer, 'answer');
  }

  async done(_worker: string, report: DoneReport, signal?: AbortSignal): Promise<boolean> {
    const answer = await this.#ask(DONE, report, CALL_MS, signal);
    return answer === OVER || validated(v.boolean(), answer, 'answer');
  }

  #isOver(): boolean {
    const chief = this.#task.member(this.#chief);
    return chief?.status === 'left' && !this.#options.returns?.(chief);
  }

  /** Repeats a request, all of which are idempotent, until it is answered or the chief has left. */
  async #ask(name: string, payload: object, timeoutMs: number, signal?: AbortSignal): Promise<unknown> {
    const { log, patienceMs = 300_000 } = this.#options;
    const begun = performance.now();
    let loggedAt = 0;
    for (let attempt = 0; ; attempt++) {
      throwIfAborted('A request to the chief', signal);
      try {
        return await this.#task.request(this.#chief, name, payload, { timeoutMs, signal });
      } catch (error) {
        if (signal?.aborted || !isTransient(error)) throw error;
        if (this.#isOver()) return OVER;
        const elapsed = performance.now() - begun;
        if (elapsed > patienceMs) {
          throw new ShoalError(
            'SHOAL_TIMEOUT',
            `${this.#chief} did not answer ${name} within ${patienceMs} ms`,
            {
              cause: error,
              hint: 'Check that the chief is running, and its log.',
            },
          );
        }
        if (elapsed - loggedAt > LOG_EVERY_MS || attempt === 1) {
          loggedAt = elapsed;
          log(`waiting for leases from ${this.#chief}: ${firstLineOf(error)}`);
        }
        await sleep(backoffMs(attempt, { baseMs: 50, maxMs: 1000 }), signal);
      }
    }
  }
}

/** The chief is unreachable or still starting. */
const isTransient = (error: unknown): boolean =>
  isShoalError(error, 'SHOAL_UNREACHABLE') ||
  isShoalError(error, 'SHOAL_TIMEOUT') ||
  isShoalError(error, 'SHOAL_NOT_FOUND') ||
  isShoalError(error, 'SHOAL_ABORTED') ||
  isShoalError(error, 'SHOAL_DISPOSED');
