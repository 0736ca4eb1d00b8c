/**
 * Evaluates a job in the process that trains it, with the metrics, event files, best checkpoints and exports of an
 * evaluator task. The variables are copied between two steps; training continues while the copy is evaluated.
 */
import { invalid, isShoalError } from '../errors/errors.js';
import * as raw from '../ops/generated/index.js';
import { Session } from '../session/session.js';
import { BestCheckpoints } from '../train/evaluation/best-checkpoints.js';
import { describeResults, type Evaluation, type Results } from '../train/evaluation/evaluate.js';
import { evaluateState, writeResults } from '../train/evaluation/evaluator.js';
import type { SummaryWriters } from '../train/hooks/summary-writers.js';
import type { TrainingRunner } from '../train/task/training-runner.js';
import { globalVariables } from '../variables/variable-scope.js';
import type { JobDefinition } from './define-job.js';
import { bestIn, evaluationGraph } from './evaluation.js';
import { BestExports } from './exporting.js';
import { Periodic } from './periodic.js';
import { evaluationsIn } from './task-directory.js';

export interface LocalEvaluationParts {
  /** Runs between two steps of training. */
  readonly session: TrainingRunner;
  /** The directory of the task. */
  readonly dir: string;
  readonly writers: SummaryWriters;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  /** Called with the error of an evaluation during training. */
  readonly onError: (error: unknown) => void;
}

/** Seconds between evaluations of a job that does not say when it is saved. */
const EVERY_SECS = 60;

export class LocalEvaluation implements AsyncDisposable {
  readonly #parts: LocalEvaluationParts;
  readonly #lastStep: number;
  readonly #periodic: Periodic;
  readonly #session: Session;
  readonly #evaluation: Evaluation;
  readonly #copy: () => Promise<void>;
  readonly #best: BestCheckpoints | undefined;
  readonly #exports: BestExports | undefined;
  #last: { readonly step: number; readonly results: Results } | undefined;

  constructor(job: JobDefinition, parts: LocalEvaluationParts) {
    const { dir, log } = parts;
    this.#parts = parts;
    this.#lastStep = job.train.lastStep;
    this.#periodic = new Periodic({ ...scheduleOf(job), work: () => this.#evaluateInBackground() });
    const { graph, evaluation } = evaluationGraph(job);
    this.#evaluation = evaluation;
    this.#session = Session.open({ graph });
    this.#copy = copier(job.name, parts.session, this.#session);
    const { best } = job.evaluate ?? {};
    this.#best = best && new BestCheckpoints({ ...bestIn(dir, best, log), copy: true, log });
    const exported = job.export?.best;
    this.#exports = exported && new BestExports(job, exported, { session: this.#session, dir, log });
  }

  /** Starts the schedule at this step. */
  begin(step: number): void {
    this.#periodic.begin(step);
  }

  /** Reports the global step. */
  onStep(step: number): void {
    // The last step is evaluated at the end.
    if (step < this.#lastStep) this.#periodic.onStep(step);
  }

  /** Resolves when the evaluation in progress has ended. */
  stop(): Promise<void> {
    return this.#periodic.stop();
  }

  /** The results of the trained model; undefined if they were interrupted. */
  async end(step: number): Promise<Results | undefined> {
    await this.#periodic.stop();
    if (this.#last?.step === step) return this.#last.results;
    try {
      return await this.#evaluate();
    } catch (error) {
      if (!this.#isStopped(error)) throw error;
      this.#parts.log('stopped before the trained model was evaluated');
      return undefined;
    }
  }

  async #evaluateInBackground(): Promise<undefined> {
    try {
      await this.#evaluate();
    } catch (error) {
      if (!this.#isStopped(error)) this.#parts.onError(error);
    }
  }

  #isStopped(error: unknown): boolean {
    return this.#parts.signal.aborted && isShoalError(error);
  }

  async #evaluate(): Promise<Results> {
    const { dir, writers, signal, log } = this.#parts;
    await this.#copy();
    const { step, results } = await evaluateState(this.#session, this.#evaluation, { signal, log });
    this.#last = { step, results };
    await writeResults(writers.get(evaluationsIn(dir)), results, step);
    log(`evaluation of step ${step}: ${describeResults(results)}`);
    await this.#exports?.consider(results, step);
    // A copy is kept; the path would be that of the original.
    await this.#best?.consider(this.#session, { step, results, path: async () => dir });
    return results;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#periodic.stop();
    await this.#session.close();
  }
}

/** When a job is evaluated: as it says, or as often as it is saved. */
function scheduleOf({ evaluate = {}, train: { checkpoint } }: JobDefinition) {
  const { everySecs, everySteps } = evaluate;
  if (everySecs !== undefined || everySteps !== undefined) return { everySecs, everySteps };
  if (checkpoint?.everySteps !== undefined || checkpoint?.everySecs !== undefined)
    return { everySecs: checkpoint.everySecs, everySteps: checkpoint.everySteps };
  return { everySecs: EVERY_SECS, everySteps: undefined };
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
