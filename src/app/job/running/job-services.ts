/**
 * What a job does beside its steps: checkpoints, exports, evaluations and event files. On a cluster they are the chief's.
 * A job without one of them does not load its module.
 */
import { describeError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { FileWriterOptions } from '../../../tensorflow/summary/file-writer.js';
import type { OpenedTraining } from '../../../training/train/core/open-training.js';
import type { EvaluationResult } from '../../../training/train/evaluation/decisions.js';
import { describeResults } from '../../../training/train/evaluation/evaluate.js';
import type { SessionRunHook } from '../../../training/train/hooks/session-run-hook.js';
import { SummaryWriters } from '../../../training/train/hooks/summary-writers.js';
import type { Server } from '../../../training/train/task/server.js';
import type { JobDefinition } from '../definition/define-job.js';
import { hasDecisions, restoresBest } from '../definition/metric-options.js';
import type { TrainingGraph } from '../graph/training-graph.js';
import type { JobExports } from '../results/exporting.js';
import type { JobDecisions } from '../results/job-decisions.js';
import type { LocalEvaluation } from '../results/local-evaluation.js';
import type { JobCheckpoints } from './checkpointing.js';
import { RateControl } from './rate-control.js';

export interface JobServicesOptions {
  readonly isChief: boolean;
  /** The server of the task on a cluster: there an evaluator task evaluates the checkpoints. */
  readonly server: Server | undefined;
  /** The task's own directory. */
  readonly dir: string;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Called with the summaries of the model; default: none. */
  readonly onSummary?: FileWriterOptions['onSummary'];
  /** Called with an error in the background that fails training. */
  readonly onError: (error: unknown) => void;
}

/** Modules are loaded at the start, not when they are needed: the package may be replaced while the job runs. */
interface Modules {
  readonly exporting: typeof import('../results/exporting.js') | undefined;
  readonly evaluating: typeof import('../results/local-evaluation.js') | undefined;
}

export class JobServices implements AsyncDisposable {
  readonly writers: SummaryWriters;
  /** The hooks that write summaries. */
  readonly summaries: readonly SessionRunHook[];
  readonly checkpoints: JobCheckpoints | undefined;
  exports: JobExports | undefined;
  evaluation: LocalEvaluation | undefined;
  /** What evaluations have decided; undefined if they decide nothing. */
  readonly decisions: JobDecisions | undefined;
  readonly #job: JobDefinition;
  readonly #options: JobServicesOptions;
  readonly #modules: Modules;

  private constructor(
    job: JobDefinition,
    options: JobServicesOptions,
    modules: Modules,
    checkpoints: JobCheckpoints | undefined,
    decisions: JobDecisions | undefined,
    summaries: (writers: SummaryWriters) => readonly SessionRunHook[],
  ) {
    this.#job = job;
    this.#options = options;
    this.#modules = modules;
    this.checkpoints = checkpoints;
    this.decisions = decisions;
    this.writers = new SummaryWriters({ onSummary: options.onSummary });
    this.summaries = summaries(this.writers);
  }

  static async load(
    job: JobDefinition,
    { graph, summaryOp }: TrainingGraph,
    options: JobServicesOptions,
  ): Promise<JobServices> {
    const { isChief, server, dir } = options;
    const { checkpoint } = job.train;
    const isClustered = server !== undefined;
    // The evaluator of a cluster needs the checkpoint that it evaluates, even if it decides nothing.
    const deciding =
      job.evaluate && (hasDecisions(job) || (isClustered && isChief && checkpoint))
        ? await import('../results/job-decisions.js')
        : undefined;
    if (isClustered && isChief) deciding?.checkWatched(job);
    const decisions = deciding && new deciding.JobDecisions(job, options);
    const checkpoints =
      checkpoint && isChief
        ? new (await import('./checkpointing.js')).JobCheckpoints(job, checkpoint, {
            ...options,
            pinned: decisions && (() => decisions.pinned()),
          })
        : undefined;
    const modules: Modules = {
      exporting: job.export && isChief ? await import('../results/exporting.js') : undefined,
      evaluating: job.evaluate && !isClustered ? await import('../results/local-evaluation.js') : undefined,
    };
    const summarizing = summaryOp && isChief ? await import('../graph/summaries.js') : undefined;
    return new JobServices(job, options, modules, checkpoints, decisions, (writers) =>
      summarizing && summaryOp
        ? summarizing.summaryHooks({ ...job.train.summaries, graph, summaryOp, dir, writers })
        : [],
    );
  }

  /** Makes what runs in the session of training. */
  attach({ betweenSteps, recoveryGuard }: OpenedTraining): void {
    const { exporting, evaluating } = this.#modules;
    const { writers } = this;
    const options = { ...this.#options, session: betweenSteps };
    if (exporting && this.#job.export)
      this.exports = new exporting.JobExports(this.#job, this.#job.export, { ...options, recoveryGuard });
    if (!evaluating) return;
    const { decisions, checkpoints } = this;
    this.evaluation = new evaluating.LocalEvaluation(this.#job, {
      ...options,
      writers,
      decisions,
      checkpoints,
    });
  }

  /** Follows the decisions of the evaluation, if it makes any. */
  follow({ background, betweenSteps, server }: OpenedTraining, { rate }: TrainingGraph): void {
    const { decisions } = this;
    if (!decisions || !hasDecisions(this.#job)) return;
    const { isChief, log } = this.#options;
    const control =
      rate && isChief ? new RateControl(rate, server ? background : betweenSteps, log) : undefined;
    decisions.onLook = async () => {
      const factor = decisions.factor(rate?.base);
      if (factor !== undefined) await control?.set(factor);
    };
    if (server) decisions.begin();
  }

  /**
   * The last checkpoint is saved: makes the best one the last, if the job asks for that. Returns its step and results.
   */
  async endAtBest(): Promise<EvaluationResult | undefined> {
    const { checkpoints, decisions } = this;
    const { signal, log } = this.#options;
    if (!checkpoints || !decisions || !restoresBest(this.#job)) return undefined;
    const newest = await checkpoints.newest();
    if (newest) await decisions.awaitEvaluation(newest.sequence, signal);
    const { best } = decisions;
    if (signal.aborted) return undefined;
    if (!best?.checkpoint) {
      log('no evaluation has found a best checkpoint: the last one stays', 'warn');
      return undefined;
    }
    if (best.checkpoint.attempt !== newest?.attempt) {
      await decisions.recordEnding();
      if (!(await checkpoints.endAt(best.checkpoint.attempt))) {
        log(
          `the best checkpoint, of step ${best.step}, does not exist any more: the last one stays`,
          'error',
        );
        return undefined;
      }
    }
    log(`the job ends with its best checkpoint, of step ${best.step}: ${describeResults(best.results)}`);
    return best;
  }

  /** The record of the end is written. */
  async ended(): Promise<void> {
    if (restoresBest(this.#job)) await this.decisions?.endingIsOver();
  }

  /** Starts the schedules at this step. */
  begin({ saving }: OpenedTraining, first: number, lastStep: number): void {
    this.checkpoints?.begin(saving, first, lastStep);
    this.exports?.begin(first);
    this.evaluation?.begin(first);
  }

  /** Reports the global step. */
  onStep(step: number): void {
    this.checkpoints?.onStep(step);
    this.exports?.onStep(step);
    this.evaluation?.onStep(step);
  }

  /** Stops the schedules; resolves when the work in progress has ended. */
  async stop(): Promise<void> {
    // The values are those of the last step from here on, or of the best checkpoint.
    if (this.decisions) this.decisions.onLook = undefined;
    await Promise.all([this.checkpoints?.stop(), this.exports?.stop(), this.evaluation?.abandon()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.decisions?.[Symbol.asyncDispose]();
      await this.evaluation?.[Symbol.asyncDispose]();
    } finally {
      await this.exports?.[Symbol.asyncDispose]();
    }
  }

  /** Event files that cannot be written do not fail the job. */
  async closeWriters(): Promise<void> {
    await this.writers
      .close()
      .catch((error: unknown) =>
        this.#options.log(`some summaries could not be written: ${describeError(error)}`, 'warn'),
      );
  }
}
