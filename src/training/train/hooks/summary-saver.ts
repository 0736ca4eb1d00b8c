/** Writes summaries to the event file: of the first step, then every so many steps or seconds. */

import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { currentStep, globalStepRead } from './global-step.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';
import { SecondOrStepTimer } from './timer.js';

export type SummaryOp = Output<'string'> | readonly Output<'string'>[];

export interface SummarySaverOptions {
  /** Steps between summaries; default: none. Set this or `saveSecs`. */
  readonly saveSteps?: number | null;
  /** Seconds between summaries; default: none. */
  readonly saveSecs?: number | null;
  /** The directory of the event file; default: none, no file is written. */
  readonly outputDir?: string;
  /** The event file, instead of `outputDir`; default: none. */
  readonly summaryWriter?: FileWriter;
  /** The summaries to write; default: the scaffold's. */
  readonly summaryOp?: SummaryOp;
  /** The scaffold with the summaries; default: none. */
  readonly scaffold?: { readonly summaryOp?: SummaryOp | undefined } | undefined;
  /** A monotonic clock, in milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

export interface SummarySaverResults {
  readonly globalStep: Tensor<'int64'>;
  readonly summaries?: readonly Tensor<'string'>[];
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<SummarySaverOptions> = {
  saveSteps: true,
  saveSecs: true,
  outputDir: true,
  summaryWriter: true,
  summaryOp: true,
  scaffold: true,
  now: true,
};

export class SummarySaverHook extends SessionRunHook<SummarySaverResults> {
  readonly #options: SummarySaverOptions;
  readonly #timer: SecondOrStepTimer;
  #step!: Output<'int64'>;
  #writer: FileWriter | undefined;
  #nextStep: number | undefined;
  readonly #requested = new WeakSet<SessionRunContext>();

  constructor(given: OrNull<SummarySaverOptions>) {
    super();
    const options = knownOptions(given, OPTIONS, 'a SummarySaverHook');
    if (!options.summaryOp && !options.scaffold)
      throw invalid('SummarySaverHook needs a summaryOp or a scaffold');
    this.#options = options;
    const { saveSteps, saveSecs, now } = options;
    this.#timer = new SecondOrStepTimer({ everySecs: saveSecs, everySteps: saveSteps, now });
  }

  override begin({ graph, writers }: HookSetup): void {
    const { summaryWriter, outputDir } = this.#options;
    this.#writer = summaryWriter ?? (outputDir === undefined ? undefined : writers.get(outputDir));
    this.#step = globalStepRead(graph, 'SummarySaverHook');
    this.#nextStep = undefined;
    this.#timer.reset();
  }

  override beforeRun(context: SessionRunContext): SessionRunArgs {
    const isDue = this.#nextStep === undefined || this.#timer.shouldTriggerForStep(this.#nextStep);
    if (!isDue) return { fetches: { globalStep: this.#step } };
    this.#requested.add(context);
    const op = this.#options.summaryOp ?? this.#options.scaffold?.summaryOp;
    const summaries = op === undefined ? [] : [op].flat();
    return { fetches: { globalStep: this.#step, summaries } };
  }

  override async afterRun(context: SessionRunContext, { results }: SessionRunValues<SummarySaverResults>) {
    const writer = this.#writer;
    if (!writer) return;
    if (!this.#requested.has(context)) {
      // The value may be from before this run's update: read it again only where that makes a difference.
      const atMost = results.globalStep.number() + 2;
      const mayBeDue = this.#timer.shouldTriggerForStep(atMost);
      this.#nextStep = mayBeDue ? (await currentStep(context.session)) + 1 : atMost;
      return;
    }
    const step = await currentStep(context.session);
    // TensorBoard then drops the later steps that an earlier run wrote.
    if (this.#nextStep === undefined) writer.addSessionLog('start', step);
    this.#timer.update(step);
    for (const summary of results.summaries ?? []) writer.addSummary(summary, step);
    this.#nextStep = step + 1;
  }

  override async end(): Promise<void> {
    await this.#writer?.flush();
  }
}
