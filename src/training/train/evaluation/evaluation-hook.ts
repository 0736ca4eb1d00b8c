/** Evaluates in the training process every so many steps or seconds: writes summaries, keeps the best checkpoints. */

import type { Log } from '../../../base/text/log.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { currentStep, globalStepRead } from '../hooks/global-step.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from '../hooks/session-run-hook.js';
import { SecondOrStepTimer } from '../hooks/timer.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';
import { BestCheckpoints, type BestPolicy } from './best-checkpoints.js';
import { describeResults, type Evaluation, evaluate, type Results } from './evaluate.js';

export interface EvaluationHookOptions {
  readonly evaluation: Evaluation;
  /** Steps between evaluations; default: none. Set this or `everySecs`. */
  readonly everySteps?: number;
  /** Seconds between evaluations; default: none. */
  readonly everySecs?: number;
  /**
   * The directory of the event file. Use one beside that of training, so that TensorBoard shows both curves. Default:
   * none, no file is written.
   */
  readonly outputDir?: string;
  /** Whether to evaluate once more at the end. Default: true. */
  readonly atEnd?: boolean;
  /** Keeps the best checkpoints. Default: none. */
  readonly best?: { readonly policy: BestPolicy; readonly saver: SaverLike; readonly checkpointDir: string };
  /** Called with the results of each evaluation; default: none. */
  readonly onResults?: (results: Results, step: number) => void;
  /** A monotonic clock, in milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

export class EvaluationHook extends SessionRunHook<Tensor<'int64'>> {
  readonly #options: EvaluationHookOptions;
  readonly #timer: SecondOrStepTimer;
  #step!: Output<'int64'>;
  #writer: FileWriter | undefined;
  #log!: Log;
  #best: BestCheckpoints | undefined;
  #latest: { readonly step: number; readonly results: Results } | undefined;
  #running = false;

  constructor(options: EvaluationHookOptions) {
    super();
    this.#options = options;
    const { everySecs, everySteps, now } = options;
    this.#timer = new SecondOrStepTimer({ everySecs, everySteps, now });
  }

  /** The results of the last evaluation, for example for an EarlyStoppingHook. */
  get latest(): Results | undefined {
    return this.#latest?.results;
  }

  override begin({ graph, writers, log }: HookSetup): void {
    const { outputDir, best } = this.#options;
    this.#step = globalStepRead(graph, 'EvaluationHook');
    this.#writer = outputDir === undefined ? undefined : writers.get(outputDir);
    this.#log = log;
    this.#best = best && new BestCheckpoints({ ...best, directory: best.checkpointDir, log });
  }

  override async afterCreateSession(session: TrainingRunner): Promise<void> {
    this.#timer.update(await currentStep(session));
    await this.#best?.recall(session);
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#step };
  }

  override async afterRun(context: SessionRunContext, values: SessionRunValues<Tensor<'int64'>>) {
    if (this.#running || !this.#timer.shouldTriggerForStep(values.results.number() + 1)) return;
    this.#running = true;
    try {
      const step = await currentStep(context.session);
      if (this.#timer.shouldTriggerForStep(step)) await this.#evaluate(context.session, step);
    } finally {
      this.#running = false;
    }
  }

  override async end(session: TrainingRunner): Promise<void> {
    const { atEnd = true } = this.#options;
    const step = await currentStep(session);
    if (atEnd && step !== this.#latest?.step) await this.#evaluate(session, step);
    await this.#writer?.flush();
  }

  async #evaluate(session: TrainingRunner, step: number): Promise<void> {
    const { evaluation, onResults, best } = this.#options;
    this.#timer.update(step);
    const results = await evaluate(session, evaluation);
    this.#latest = { step, results };
    for (const [name, value] of Object.entries(results)) this.#writer?.addScalar(name, value, step);
    this.#log(`evaluation at step ${step}: ${describeResults(results)}`);
    onResults?.(results, step);
    if (!best) return;
    const path = () => best.saver.save(session, `${best.checkpointDir}/model.ckpt`);
    await this.#best?.consider(session, { step, results, path });
  }
}
