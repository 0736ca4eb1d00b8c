/**
 * What the evaluations of a job have decided, as its training knows it: whether training ends, which checkpoint is the
 * best, how often the learning rate was reduced. On a cluster each worker looks for what the evaluator has written; in one
 * process the evaluation reports it.
 */
import * as v from 'valibot';
import { sleep } from '../../../base/async/deadline.js';
import { serialQueue } from '../../../base/async/serial-queue.js';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import {
  type NotePlace,
  readNote,
  removeNote,
  writeNote,
} from '../../../distributed/checkpoint/reading/job-note.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { parseTaskId } from '../../../distributed/cluster/spec/task-id.js';
import {
  checkMetrics,
  type Decisions,
  type EvaluationResult,
} from '../../../training/train/evaluation/decisions.js';
import type { Server } from '../../../training/train/task/server.js';
import type { JobDefinition } from '../definition/define-job.js';
import { decisionRules, rateRule } from '../definition/metric-options.js';
import { evaluationGraph } from './evaluation.js';
import {
  decodeNote,
  type EvaluationNote,
  evaluationPlace,
  RECORD_REQUEST,
  readEvaluations,
} from './evaluation-log.js';

export interface JobDecisionsOptions {
  readonly server: Server | undefined;
  readonly isChief: boolean;
  readonly dir: string;
  readonly log: Log;
  /** How often the decisions are looked for. Default: 1000. */
  readonly everyMs?: number;
  /** How long an evaluator may be absent before that is logged. Default: 60,000. */
  readonly absentMs?: number;
}

/** What an evaluator sends. */
const Sent = v.object({
  revision: v.pipe(v.number(), v.integer(), v.minValue(0)),
  note: v.object({
    format: v.literal('shoal-evaluations'),
    version: v.literal(1),
    decisions: v.looseObject({}),
    evaluating: v.optional(v.looseObject({})),
  }),
});
const CALL_MS = 5000;
/** How long the chief waits for the evaluation of the last checkpoint without a sign of the evaluator. */
const FINAL_SILENT_MS = 60_000;
/** The longest wait for it. */
const FINAL_MS = 60 * 60_000;

/**
 * Throws if the job watches a metric that its evaluation does not have: on the chief, before training. Whatever else is
 * wrong with the evaluation, the evaluator reports: it may have files that the chief does not.
 */
export function checkWatched(job: JobDefinition): void {
  let metrics: readonly string[];
  try {
    const { graph, evaluation } = evaluationGraph(job);
    using _ = graph;
    metrics = Object.keys(evaluation.metrics);
  } catch {
    return;
  }
  checkMetrics(decisionRules(job), metrics);
}

export class JobDecisions implements AsyncDisposable {
  readonly #job: JobDefinition;
  readonly #options: JobDecisionsOptions;
  readonly #place: NotePlace | undefined;
  readonly #stop = new AbortController();
  readonly #inTurn = serialQueue();
  #end = () => {};
  #revision = 0;
  #found: EvaluationNote | undefined;
  #polling: Promise<void> | undefined;
  #absentSince: number | undefined;
  #isAbsenceLogged = false;
  /** Called after each look, with the current decisions. */
  onLook: ((decisions: Decisions | undefined) => Promise<void>) | undefined;

  constructor(job: JobDefinition, options: JobDecisionsOptions) {
    this.#job = job;
    this.#options = options;
    this.#place = evaluationPlace(job, options);
    const { server, isChief } = options;
    if (!server || !isChief) return;
    this.#end = server.task.onRequest(RECORD_REQUEST, (payload, { from }) => {
      if (parseTaskId(from.task).job !== 'evaluator')
        throw new ShoalError('SHOAL_FORBIDDEN', `${from.task} is not an evaluator`);
      return this.#inTurn(() => this.#record(validated(Sent, payload, 'request')));
    });
  }

  /** Writes what the evaluator has sent to the disks of all tasks. */
  async #record({ revision, note }: v.InferOutput<typeof Sent>): Promise<number> {
    await this.look();
    const next = Math.max(revision, this.#revision) + 1;
    // Known before it is written: a checkpoint that is being evaluated is not removed from here on.
    this.#found = decodeNote(note);
    await writeNote(this.#place as NotePlace, { revision: next, value: note }, { timeoutMs: CALL_MS });
    this.#revision = next;
    return next;
  }

  /** Those for the job's last step. */
  get #decisions(): Decisions | undefined {
    const decisions = this.#found?.decisions;
    return decisions?.lastStep === this.#job.train.lastStep ? decisions : undefined;
  }

  /** The step whose evaluation has ended training. */
  get stoppedAt(): number | undefined {
    return decisionRules(this.#job).stop && this.#decisions?.stoppedAt;
  }

  /** How often the learning rate was reduced. */
  get reductions(): number | undefined {
    return this.#found?.decisions.reduce.plateaus;
  }

  /** The best evaluation whose checkpoint is kept. */
  get best(): EvaluationResult | undefined {
    return this.#found?.decisions.best;
  }

  /** In one process: an evaluation has ended. */
  report(decisions: Decisions): void {
    this.#found = { decisions };
  }

  /** Looks once; failures wait for the next look. */
  async look(): Promise<void> {
    if (!this.#place) return;
    const { signal } = this.#stop;
    const options = { after: this.#revision, timeoutMs: CALL_MS, signal };
    const found = await readEvaluations(this.#place, options).catch((error: unknown) => {
      if (isShoalError(error) || signal.aborted) return undefined;
      throw error;
    });
    if (!found) return;
    this.#revision = found.revision;
    this.#found = found;
  }

  /** Checkpoints that must not be removed. Throws if they cannot be looked up. */
  async pinned(): Promise<readonly string[]> {
    if (this.#place) {
      const found = await readEvaluations(this.#place, { after: this.#revision, timeoutMs: CALL_MS });
      if (found) {
        this.#revision = found.revision;
        this.#found = found;
      }
    }
    const { decisions, evaluating } = this.#found ?? {};
    return [decisions?.best?.checkpoint, evaluating].flatMap((one) => (one ? [one.attempt] : []));
  }

  /** Looks every second from now on. */
  begin(): void {
    const { everyMs = 1000, log } = this.#options;
    const { signal } = this.#stop;
    const poll = async () => {
      while (!signal.aborted) {
        await this.look();
        await this.onLook?.(this.#found?.decisions);
        this.#watchEvaluator();
        await sleep(everyMs, signal).catch(() => {});
      }
    };
    this.#polling = poll().catch((error: unknown) => {
      if (!signal.aborted) log(`decisions of the evaluation cannot be looked up: ${String(error)}`, 'error');
    });
  }

  get #isEvaluatorPresent(): boolean {
    const members = this.#options.server?.task.members() ?? [];
    return members.some(({ task, status }) => parseTaskId(task).job === 'evaluator' && isPresent(status));
  }

  #watchEvaluator(): void {
    const { server, isChief, log, absentMs = 60_000 } = this.#options;
    if (!server || !isChief || this.#isAbsenceLogged) return;
    if (this.#isEvaluatorPresent) {
      this.#absentSince = undefined;
      return;
    }
    this.#absentSince ??= performance.now();
    if (performance.now() - this.#absentSince < absentMs) return;
    this.#isAbsenceLogged = true;
    const { stop, reduce } = decisionRules(this.#job);
    const what = [
      stop && `early stopping on eval/${stop.metric}`,
      reduce && `the learning rate by eval/${reduce.metric}`,
    ];
    log(
      `no evaluator has been there for ${absentMs / 1000} s: without one nobody decides ${what.filter(Boolean).join(' and ')}, and training goes on to step ${this.#job.train.lastStep}`,
      'warn',
    );
  }

  /**
   * Waits until the checkpoint of this sequence is evaluated, as long as an evaluator is there: it may be the best. Not if
   * training was ended by an evaluation: the decision is made.
   */
  async awaitEvaluation(sequence: number, signal: AbortSignal): Promise<void> {
    const { server, log } = this.#options;
    await this.look();
    if (!server) return;
    const isEvaluated = () => (this.#found?.decisions.last?.checkpoint?.sequence ?? -1) >= sequence;
    const begun = performance.now();
    let seenAt = begun;
    let isLogged = false;
    while (!isEvaluated() && this.stoppedAt === undefined && !signal.aborted) {
      const now = performance.now();
      if (this.#isEvaluatorPresent) seenAt = now;
      const isNever = this.#found === undefined && !this.#isEvaluatorPresent && this.#isAbsenceLogged;
      if (isNever || now - seenAt > FINAL_SILENT_MS || now - begun > FINAL_MS) {
        log(
          'the last checkpoint is not evaluated: no evaluator is there; the best of the others counts',
          'warn',
        );
        return;
      }
      if (!isLogged) {
        const limit = `up to ${FINAL_SILENT_MS / 1000} s while no evaluator is there`;
        log(`waiting for the evaluation of the last checkpoint, which may be the best, ${limit}`);
      }
      isLogged = true;
      await sleep(500, signal).catch(() => {});
      await this.look();
    }
  }

  /** What the learning rate is multiplied by. `rate`: that of the optimizer, if it is one number. */
  factor(rate: number | undefined): number | undefined {
    const rule = rateRule(this.#job);
    const { reductions } = this;
    if (!rule?.isEvaluated || reductions === undefined) return undefined;
    return Math.max(rule.factor ** reductions, rate === undefined ? 0 : Math.min(1, rule.min / rate));
  }

  /** The note that training has ended, while the best checkpoint is made the last one. */
  get #ending(): NotePlace | undefined {
    return this.#place && { ...this.#place, note: `ending-${this.#job.train.lastStep}` };
  }

  /** Records that training has ended: only the best checkpoint remains to be restored. */
  async recordEnding(): Promise<void> {
    if (this.#ending)
      await writeNote(this.#ending, { revision: 1, value: { hasEnded: true } }, { timeoutMs: CALL_MS });
  }

  /** The record of the end follows that note. */
  async endingIsOver(): Promise<void> {
    if (this.#ending) await removeNote(this.#ending, { timeoutMs: CALL_MS });
  }

  /** Whether training has ended, and its best checkpoint may not be the last one yet. */
  async hasEnded(signal?: AbortSignal): Promise<boolean> {
    await this.look();
    if (this.stoppedAt !== undefined) return true;
    const call = { timeoutMs: CALL_MS, ...(signal && { signal }) };
    return this.#ending !== undefined && (await readNote(this.#ending, call)) !== undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end();
    this.#stop.abort();
    await this.#polling;
  }
}
