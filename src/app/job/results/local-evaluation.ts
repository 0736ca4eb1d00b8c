/**
 * Evaluates a job in the process that trains it, with the metrics, event files, best checkpoints and exports of an
 * evaluator task, between two steps: training waits, so that what evaluations decide does not depend on their speed.
 */

import { describeError, invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Session } from '../../../tensorflow/session/session.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';
import {
  every,
  type Interval,
  SaveSchedule,
  ScheduledWork,
} from '../../../training/train/checkpoints/save-schedule.js';
import { BestCheckpoints } from '../../../training/train/evaluation/best-checkpoints.js';
import type { EvaluatedCheckpoint } from '../../../training/train/evaluation/decisions.js';
import {
  describeResults,
  type Evaluation,
  type Results,
} from '../../../training/train/evaluation/evaluate.js';
import { evaluateState, writeResults } from '../../../training/train/evaluation/evaluator.js';
import type { SummaryWriters } from '../../../training/train/hooks/summary-writers.js';
import type { TrainingRunner } from '../../../training/train/task/training-runner.js';
import type { JobDefinition } from '../definition/define-job.js';
import { restoresBest } from '../definition/metric-options.js';
import { evaluationsIn } from '../directory/task-directory.js';
import { bestIn, evaluationGraph } from './evaluation.js';
import { EvaluationLog, evaluationPlace } from './evaluation-log.js';
import { BestExports } from './exporting.js';
import type { JobDecisions } from './job-decisions.js';
import { type SavedCheckpoints, StoredCheckpoints } from './stored-checkpoints.js';

export interface LocalEvaluationOptions {
  /** Runs between two steps of training. */
  readonly session: TrainingRunner;
  /** The directory of the task. */
  readonly dir: string;
  readonly writers: SummaryWriters;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Called with the error of an evaluation during training. */
  readonly onError: (error: unknown) => void;
  /** What receives the decisions; default: none, the job decides nothing by its evaluations. */
  readonly decisions?: JobDecisions | undefined;
  /** The checkpoints of the job; default: none. */
  readonly checkpoints?: SavedCheckpoints | undefined;
}

/** Seconds between evaluations of a job that does not say when it is saved. */
const EVERY_SECS = 60;

export class LocalEvaluation implements AsyncDisposable {
  readonly #options: LocalEvaluationOptions;
  readonly #lastStep: number;
  readonly #schedule: ScheduledWork;
  readonly #session: Session;
  readonly #evaluation: Evaluation;
  readonly #copy: () => Promise<void>;
  readonly #best: BestCheckpoints | undefined;
  readonly #exports: BestExports | undefined;
  readonly #record: EvaluationLog;
  /** Set if the job ends with its best checkpoint: then checkpoints are evaluated, not copies of variables. */
  readonly #stored: StoredCheckpoints | undefined;
  readonly #abandoned = new AbortController();
  readonly #signal: AbortSignal;
  #last: { readonly step: number; readonly results: Results } | undefined;

  constructor(job: JobDefinition, options: LocalEvaluationOptions) {
    const { dir, log } = options;
    this.#options = options;
    this.#lastStep = job.train.lastStep;
    const { checkpoints } = options;
    const place = evaluationPlace(job, { dir });
    this.#record = new EvaluationLog(job, { place, log });
    this.#stored =
      restoresBest(job) && checkpoints && place ? new StoredCheckpoints(place, checkpoints, log) : undefined;
    this.#schedule = new ScheduledWork(new SaveSchedule(every(intervalOf(job))), () =>
      this.#evaluateBetweenSteps(),
    );
    const { graph, evaluation } = evaluationGraph(job);
    this.#evaluation = evaluation;
    this.#signal = AbortSignal.any([options.signal, this.#abandoned.signal]);
    this.#session = Session.open({ graph });
    try {
      this.#record.check(Object.keys(evaluation.metrics));
      this.#copy = copier(job.name, options.session, this.#session);
      const { best } = job.evaluate ?? {};
      this.#best = best && new BestCheckpoints({ ...bestIn(dir, best, log), copy: true, log });
      const exported = job.export?.best;
      this.#exports = exported && new BestExports(job, exported, { session: this.#session, dir, log });
    } catch (error) {
      void this.#session.close();
      throw error;
    }
  }

  /** Starts the schedule at this step. */
  begin(step: number): void {
    this.#schedule.begin(step);
  }

  /** Reports the global step. */
  onStep(step: number): void {
    // The last step is evaluated at the end.
    if (step < this.#lastStep) this.#schedule.onStep(step);
  }

  /** Resolves when the evaluation in progress has ended; undefined if there is none. No step may begin before. */
  get inProgress(): Promise<void> | undefined {
    return this.#schedule.running;
  }

  /** Whether the evaluated checkpoints are kept, to end with the best. */
  get keepsBest(): boolean {
    return this.#stored !== undefined;
  }

  /** Ends the schedule, and the evaluation in progress: that of the trained model follows, or training has failed. */
  async abandon(): Promise<void> {
    this.#abandoned.abort();
    await this.#schedule.stop();
  }

  /** The results of the trained model; undefined if they were interrupted. */
  async end(step: number): Promise<Results | undefined> {
    await this.abandon();
    if (this.#last?.step === step) return this.#last.results;
    const { signal, log } = this.#options;
    try {
      return await this.#evaluate(signal);
    } catch (error) {
      if (!isStopped(error, signal)) throw error;
      log('stopped before the trained model was evaluated');
      return undefined;
    }
  }

  async #evaluateBetweenSteps(): Promise<void> {
    try {
      await this.#evaluate(this.#signal);
    } catch (error) {
      if (isStopped(error, this.#signal)) return;
      // A mistake in the job is repeated by each evaluation.
      if (!isShoalError(error) || error.code === 'SHOAL_INVALID_ARGUMENT') this.#options.onError(error);
      else this.#options.log(`${describeError(error)}; training continues`);
    }
  }

  async #evaluate(signal: AbortSignal): Promise<Results> {
    const { dir, writers, log, decisions } = this.#options;
    const checkpoint = await this.#load(signal);
    const { step, results } = await evaluateState(this.#session, this.#evaluation, { signal, log }).catch(
      (error: unknown) => {
        if (!isShoalError(error) || isStopped(error, signal)) throw error;
        const { code, message, hint } = error;
        throw new ShoalError(code, `An evaluation failed: ${message}`, {
          cause: error,
          hint,
        });
      },
    );
    this.#last = { step, results };
    decisions?.report(await this.#record.add({ step, results, checkpoint }));
    await decisions?.onLook?.(this.#record.decisions);
    log(`evaluation of step ${step}: ${describeResults(results)}`, 'info', {
      event: 'evaluation',
      step,
      metrics: results,
    });
    const keep = async (what: string, work: () => unknown) => {
      try {
        await work();
      } catch (error) {
        if (isShoalError(error, 'SHOAL_INVALID_ARGUMENT')) throw error;
        log(`${what} of step ${step} could not be kept: ${describeError(error)}`);
      }
    };
    await keep('the results', () => writeResults(writers.get(evaluationsIn(dir)), results, step));
    await this.#exports?.consider(results, step);
    // A copy is kept; the path would be that of the original.
    const state = { step, results, path: async () => dir };
    await keep('the best checkpoint', () => this.#best?.consider(this.#session, state));
    return results;
  }

  /** Brings the values to evaluate into the session: of a checkpoint that is kept meanwhile, or of the trained model. */
  async #load(signal: AbortSignal): Promise<EvaluatedCheckpoint | undefined> {
    if (!this.#stored) {
      await this.#copy();
      return undefined;
    }
    return this.#stored.load(this.#session, (checkpoint) => this.#record.begin(checkpoint), signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.abandon();
    this.#record[Symbol.dispose]();
    await this.#session.close();
  }
}

const isStopped = (error: unknown, signal: AbortSignal): boolean =>
  signal.aborted && (isShoalError(error) || (error as Error).name === 'AbortError');

/** When a job is evaluated: as it says, or as often as it is saved. */
function intervalOf({ evaluate = {}, train: { checkpoint } }: JobDefinition): Interval {
  const { everySecs, everySteps } = evaluate;
  if (everySecs !== undefined || everySteps !== undefined) return { secs: everySecs, steps: everySteps };
  if (checkpoint?.everySteps !== undefined || checkpoint?.everySecs !== undefined)
    return { secs: checkpoint.everySecs, steps: checkpoint.everySteps };
  return { secs: EVERY_SECS };
}

/** Returns a function that copies the variables of the trained model into the session of the evaluation. */
function copier(job: string, from: TrainingRunner, to: Session): () => Promise<void> {
  const trained = new Map(globalVariables(from.graph).map((variable) => [variable.name, variable]));
  const wanted = globalVariables(to.graph);
  const missing = wanted.filter(({ name }) => !trained.has(name));
  if (missing.length > 0) {
    const names = missing.map(({ name }) => `'${name}'`).join(', ');
    throw invalid(`The evaluation of job '${job}' has variables that its training does not have: ${names}`, {
      hint: 'The model function must make the same variables whether `training` is true or false.',
    });
  }
  const reads = from.graph.asDefault(() => wanted.map(({ name }) => trained.get(name)!.toOutput()));
  const writes = to.graph.asDefault(() =>
    wanted.map((variable) => {
      const value = raw.placeholder({ dtype: variable.dtype, shape: variable.shape });
      return { value, assign: variable.assign(value) };
    }),
  );
  return async () => {
    const values = await from.run(reads);
    try {
      await to.run(
        writes.map(({ assign }) => assign),
        { feeds: writes.map(({ value }, i) => [value, values[i]!] as const) },
      );
    } finally {
      for (const value of values) value.dispose();
    }
  };
}
