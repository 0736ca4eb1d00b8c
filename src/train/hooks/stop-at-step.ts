/**
 * Ends training at a step: `lastStep` of all runs, or after `numSteps` more than there are at the start. Where that
 * step is reached already, nothing is run.
 */
import { invalid } from '../../errors/errors.js';
import type { Output } from '../../graph/operation.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { TrainingRunner } from '../recovery/training-runner.js';
import { globalStepRead, readStep } from './global-step.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';

export interface StopAtStepOptions {
  readonly numSteps?: number;
  readonly lastStep?: number;
}

export class StopAtStepHook extends SessionRunHook<Tensor<'int64'>> {
  readonly #numSteps: number | undefined;
  #lastStep: number | undefined;
  #step!: Output<'int64'>;

  constructor({ numSteps, lastStep }: StopAtStepOptions) {
    super();
    if ((numSteps === undefined) === (lastStep === undefined)) {
      throw invalid('StopAtStepHook takes numSteps or lastStep, one of them');
    }
    for (const value of [numSteps, lastStep]) {
      if (value !== undefined && !Number.isSafeInteger(value)) {
        throw invalid(`StopAtStepHook takes a whole number of steps, not ${value}`);
      }
    }
    this.#numSteps = numSteps;
    this.#lastStep = lastStep;
  }

  override begin({ graph }: HookSetup): void {
    this.#step = globalStepRead(graph, 'StopAtStepHook');
  }

  override async afterCreateSession(session: TrainingRunner, coordinator: Coordinator): Promise<void> {
    const step = await readStep(session, this.#step);
    this.#lastStep ??= step + (this.#numSteps as number);
    if (step >= this.#lastStep) coordinator.requestStop();
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#step };
  }

  override async afterRun(context: SessionRunContext, values: SessionRunValues<Tensor<'int64'>>) {
    const lastStep = this.#lastStep as number;
    // The value may be of before this run's update: look again only where it could make the difference.
    if (values.results.number() + 1 < lastStep) return;
    if ((await readStep(context.session, this.#step)) >= lastStep) context.requestStop();
  }
}
