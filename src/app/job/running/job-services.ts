/**
 * What a job does beside its steps: checkpoints, exports, evaluations and event files. On a cluster they are the chief's.
 * A job without one of them does not load its module.
 */
import { describeError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { OpenedTraining } from '../../../training/train/core/open-training.js';
import type { SessionRunHook } from '../../../training/train/hooks/session-run-hook.js';
import { SummaryWriters } from '../../../training/train/hooks/summary-writers.js';
import type { JobDefinition } from '../definition/define-job.js';
import type { TrainingGraph } from '../graph/training-graph.js';
import type { JobExports } from '../results/exporting.js';
import type { LocalEvaluation } from '../results/local-evaluation.js';
import type { JobCheckpoints } from './checkpointing.js';

export interface JobServicesOptions {
  readonly isChief: boolean;
  /** Whether the job runs on a cluster: there an evaluator task evaluates the checkpoints. */
  readonly isClustered: boolean;
  /** The task's own directory. */
  readonly dir: string;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Called with an error in the background that fails training. */
  readonly onError: (error: unknown) => void;
}

/** Modules are loaded at the start, not when they are needed: the package may be replaced while the job runs. */
interface Modules {
  readonly exporting: typeof import('../results/exporting.js') | undefined;
  readonly evaluating: typeof import('../results/local-evaluation.js') | undefined;
}

export class JobServices implements AsyncDisposable {
  readonly writers = new SummaryWriters();
  /** The hooks that write summaries. */
  readonly summaries: readonly SessionRunHook[];
  readonly checkpoints: JobCheckpoints | undefined;
  exports: JobExports | undefined;
  evaluation: LocalEvaluation | undefined;
  readonly #job: JobDefinition;
  readonly #options: JobServicesOptions;
  readonly #modules: Modules;

  private constructor(
    job: JobDefinition,
    options: JobServicesOptions,
    modules: Modules,
    checkpoints: JobCheckpoints | undefined,
    summaries: (writers: SummaryWriters) => readonly SessionRunHook[],
  ) {
    this.#job = job;
    this.#options = options;
    this.#modules = modules;
    this.checkpoints = checkpoints;
    this.summaries = summaries(this.writers);
  }

  static async load(
    job: JobDefinition,
    { graph, summaryOp }: TrainingGraph,
    options: JobServicesOptions,
  ): Promise<JobServices> {
    const { isChief, isClustered, dir } = options;
    const { checkpoint } = job.train;
    const checkpoints =
      checkpoint && isChief
        ? new (await import('./checkpointing.js')).JobCheckpoints(job, checkpoint, options)
        : undefined;
    const modules: Modules = {
      exporting: job.export && isChief ? await import('../results/exporting.js') : undefined,
      evaluating: job.evaluate && !isClustered ? await import('../results/local-evaluation.js') : undefined,
    };
    const summarizing = summaryOp && isChief ? await import('../graph/summaries.js') : undefined;
    return new JobServices(job, options, modules, checkpoints, (writers) =>
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
    if (evaluating) this.evaluation = new evaluating.LocalEvaluation(this.#job, { ...options, writers });
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
    await Promise.all([this.checkpoints?.stop(), this.exports?.stop(), this.evaluation?.abandon()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
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
