/** Reports the steps per second of all workers together: in the log, and as the summary `global_step/sec`. */

import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import type { Log } from '../../../base/text/log.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { getGlobalStep } from '../../../tensorflow/variables/global-step.js';
import { currentStep, fetchedStep, globalStepRead } from './global-step.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';
import { type Elapsed, SecondOrStepTimer } from './timer.js';

export interface StepCounterOptions {
  /** Steps between measurements; default: 100, or none if `everyNSecs` is set. */
  readonly everyNSteps?: number;
  /** Seconds between measurements; default: none. */
  readonly everyNSecs?: number;
  /** The directory of the event file; default: none, no file is written. */
  readonly outputDir?: string;
  /** The event file, instead of `outputDir`; default: none. */
  readonly summaryWriter?: FileWriter;
  /** A monotonic clock, in milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<StepCounterOptions> = {
  everyNSteps: true,
  everyNSecs: true,
  outputDir: true,
  summaryWriter: true,
  now: true,
};

export class StepCounterHook extends SessionRunHook<Tensor<'int64'>> {
  readonly #options: StepCounterOptions;
  readonly #timer: SecondOrStepTimer;
  #step!: Output<'int64'>;
  #tag = '';
  #writer: FileWriter | undefined;
  #log!: Log;
  #lastSeen: number | undefined;
  #unchangedRuns = 0;

  constructor(given: OrNull<StepCounterOptions> = {}) {
    super();
    const options = knownOptions(given, OPTIONS, 'a StepCounterHook');
    this.#options = options;
    const { everyNSecs, everyNSteps = everyNSecs === undefined ? 100 : undefined, now } = options;
    this.#timer = new SecondOrStepTimer({ everySecs: everyNSecs, everySteps: everyNSteps, now });
  }

  override begin({ graph, writers, log }: HookSetup): void {
    const { summaryWriter, outputDir } = this.#options;
    this.#step = globalStepRead(graph, 'StepCounterHook');
    this.#tag = `${getGlobalStep(graph)?.name}/sec`;
    this.#writer = summaryWriter ?? (outputDir === undefined ? undefined : writers.get(outputDir));
    this.#log = log;
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#step };
  }

  override async afterRun(context: SessionRunContext, values: SessionRunValues<Tensor<'int64'>>) {
    const seen = fetchedStep(context, values);
    if (this.#timer.shouldTriggerForStep(seen + 1)) {
      const step = await currentStep(context.session);
      if (this.#timer.shouldTriggerForStep(step)) {
        const elapsed = this.#timer.update(step);
        if (elapsed) this.#record(elapsed, step);
      }
    }
    if (seen === this.#lastSeen && ++this.#unchangedRuns === 5) {
      this.#log(`the global step is still ${seen}: pass it to minimize: { globalStep }`);
    }
    this.#lastSeen = seen;
  }

  #record({ steps, secs }: Elapsed, step: number): void {
    // After a restore the step is lower than before, so there is no rate.
    if (steps <= 0 || secs <= 0) return;
    this.#writer?.addScalar(this.#tag, steps / secs, step);
    this.#log(`${this.#tag}: ${(steps / secs).toPrecision(4)}`);
  }

  override async end(): Promise<void> {
    await this.#writer?.flush();
  }
}
