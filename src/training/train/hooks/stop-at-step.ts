/**
 * Stops training at a global step: `lastStep`, or `numSteps` after the step at the start. If that step is reached
 * already, nothing runs.
 */

import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { currentStep, fetchedStep, globalStepRead } from './global-step.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';

export interface StopAtStepOptions {
  /** The number of steps after the start; default: none. Set this or `lastStep`. */
  readonly numSteps?: number;
  /** The global step to stop at; default: none. */
  readonly lastStep?: number;
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<StopAtStepOptions> = {
  numSteps: true,
  lastStep: true,
};

export class StopAtStepHook extends SessionRunHook<Tensor<'int64'>> {
  readonly #numSteps: number | undefined;
  #lastStep: number | undefined;
  #step!: Output<'int64'>;

  constructor(given: OrNull<StopAtStepOptions>) {
    super();
    const { numSteps, lastStep } = knownOptions(given, OPTIONS, 'a StopAtStepHook');
    if ((numSteps === undefined) === (lastStep === undefined)) {
      throw invalid('StopAtStepHook needs exactly one of numSteps and lastStep');
    }
    for (const value of [numSteps, lastStep]) {
      if (value !== undefined && !Number.isSafeInteger(value)) {
        throw invalid(`numSteps and lastStep of StopAtStepHook must be integers, not ${value}`);
      }
    }
    this.#numSteps = numSteps;
    this.#lastStep = lastStep;
  }

  override begin({ graph }: HookSetup): void {
    this.#step = globalStepRead(graph, 'StopAtStepHook');
  }

  override async afterCreateSession(session: TrainingRunner, coordinator: Coordinator): Promise<void> {
    const step = await currentStep(session);
    this.#lastStep ??= step + (this.#numSteps as number);
    if (step >= this.#lastStep) coordinator.requestStop();
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#step };
  }

  override async afterRun(context: SessionRunContext, values: SessionRunValues<Tensor<'int64'>>) {
    const lastStep = this.#lastStep as number;
    // The value may be from before this run's update: read it again only where that makes a difference.
    if (fetchedStep(context, values) + 1 < lastStep) return;
    if ((await currentStep(context.session)) >= lastStep) context.requestStop();
  }
}
