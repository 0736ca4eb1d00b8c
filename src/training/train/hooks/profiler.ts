/** Traces a run every so many steps or seconds: `timeline-N.json` for Chrome's trace viewer, and for TensorBoard. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import { makeDirectory } from '../../../base/files/directories.js';
import type { Log } from '../../../base/text/log.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { chromeTrace } from './chrome-trace.js';
import { currentStep, fetchedStep, globalStepRead } from './global-step.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';
import { SecondOrStepTimer } from './timer.js';

export interface ProfilerOptions {
  /** Steps between traces; default: none. Set this or `saveSecs`. */
  readonly saveSteps?: number;
  /** Seconds between traces; default: none. */
  readonly saveSecs?: number;
  /** The directory of the traces; default: the working directory. */
  readonly outputDir?: string;
  /** A monotonic clock, in milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<ProfilerOptions> = {
  saveSteps: true,
  saveSecs: true,
  outputDir: true,
  now: true,
};

export class ProfilerHook extends SessionRunHook<Tensor<'int64'>> {
  readonly #outputDir: string;
  readonly #timer: SecondOrStepTimer;
  readonly #requested = new WeakSet<SessionRunContext>();
  #step!: Output<'int64'>;
  #writer!: FileWriter;
  #log!: Log;
  #nextStep: number | undefined;

  constructor(given: OrNull<ProfilerOptions>) {
    super();
    const { saveSteps, saveSecs, outputDir = '.', now } = knownOptions(given, OPTIONS, 'a ProfilerHook');
    this.#outputDir = outputDir;
    this.#timer = new SecondOrStepTimer({ everySecs: saveSecs, everySteps: saveSteps, now });
  }

  override begin({ graph, writers, log }: HookSetup): void {
    this.#step = globalStepRead(graph, 'ProfilerHook');
    this.#writer = writers.get(this.#outputDir);
    this.#log = log;
    this.#nextStep = undefined;
  }

  /** The first run is never traced: it includes one-time initialization. */
  override beforeRun(context: SessionRunContext): SessionRunArgs {
    const isDue = this.#nextStep !== undefined && this.#timer.shouldTriggerForStep(this.#nextStep);
    if (isDue) this.#requested.add(context);
    return { fetches: this.#step, trace: isDue };
  }

  override async afterRun(context: SessionRunContext, values: SessionRunValues<Tensor<'int64'>>) {
    let step = fetchedStep(context, values) + 1;
    if (this.#nextStep === undefined) this.#timer.update(step - 1);
    const { metadata } = values;
    if (this.#requested.has(context) && metadata) {
      step = await currentStep(context.session);
      this.#timer.update(step);
      if (metadata.stepStats) {
        const path = join(this.#outputDir, `timeline-${step}.json`);
        await makeDirectory(this.#outputDir);
        await writeFile(path, JSON.stringify(chromeTrace(metadata.stepStats)));
        this.#log(`saved the trace of step ${step} to ${path}`);
      }
      this.#writer.addRunMetadata(metadata, `step_${step}`, step);
    }
    this.#nextStep = step + 1;
  }

  override async end(): Promise<void> {
    await this.#writer.flush();
  }
}
