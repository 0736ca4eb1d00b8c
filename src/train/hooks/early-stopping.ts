/**
 * Ends training when a metric has not become better for a while. The chief watches it and raises a flag beside the
 * global step; the hook of every worker sees the flag and stops too. The flag is no part of checkpoints: a job that
 * is started again with other settings trains on.
 */
import { invalid } from '../../errors/errors.js';
import type { Operation, Output, OutputLike } from '../../graph/operation.js';
import { constant } from '../../ops/creation.js';
import { Tensor } from '../../tensor/tensor.js';
import { GraphKeys } from '../../variables/collections.js';
import { getGlobalStep } from '../../variables/global-step.js';
import { Variable } from '../../variables/variable.js';
import { globalStepRead } from './global-step.js';
import { isBetter, type Mode } from './metric-comparison.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';

export interface EarlyStoppingOptions {
  /** A tensor of the run, or what an evaluation has found last. */
  readonly metric: OutputLike | string | (() => number | undefined);
  readonly mode?: Mode;
  /** How many steps the metric may stay without becoming better. */
  readonly maxStepsWithoutImprovement: number;
  /** How much better it must be to count. */
  readonly minDelta?: number;
  /** Training does not end before this step. */
  readonly minSteps?: number;
  /** Whether this task watches the metric; the others only look at the flag. */
  readonly isChief?: boolean;
}

interface Results {
  readonly step: Tensor<'int64'>;
  readonly flag: Tensor<'bool'>;
  readonly metric: Tensor | undefined;
}

export class EarlyStoppingHook extends SessionRunHook<Results> {
  readonly #options: EarlyStoppingOptions;
  #step!: Output<'int64'>;
  #flag!: Variable<'bool'>;
  #raise!: Operation;
  #log!: (line: string) => void;
  #best: { readonly value: number; readonly step: number } | undefined;
  #over = false;

  constructor(options: EarlyStoppingOptions) {
    super();
    if (!(options.maxStepsWithoutImprovement > 0)) {
      throw invalid('EarlyStoppingHook: maxStepsWithoutImprovement must be above 0');
    }
    this.#options = options;
  }

  /** The best value so far and its step. */
  get best(): { readonly value: number; readonly step: number } | undefined {
    return this.#best;
  }

  override begin({ graph, log }: HookSetup): void {
    this.#log = log;
    this.#step = globalStepRead(graph, 'EarlyStoppingHook');
    const device = getGlobalStep(graph)?.device;
    graph.asDefault(() => {
      this.#flag = Variable.create<'bool'>({
        name: graph.uniqueName('signal_early_stopping'),
        initialValue: () => constant(Tensor.of(false)),
        trainable: false,
        collections: [GraphKeys.localVariables],
        ...(device ? { device } : {}),
      });
      this.#raise = this.#flag.assign(Tensor.of(true));
    });
  }

  override beforeRun(): SessionRunArgs {
    const { metric, isChief = true } = this.#options;
    const watched = isChief && typeof metric !== 'function' ? metric : undefined;
    return { fetches: { step: this.#step, flag: this.#flag, metric: watched } };
  }

  override async afterRun(context: SessionRunContext, { results }: SessionRunValues<Results>): Promise<void> {
    if (this.#over || results.flag.item()) {
      context.requestStop();
      return;
    }
    const { metric, isChief = true } = this.#options;
    const value = typeof metric === 'function' ? metric() : results.metric?.number();
    if (!isChief || value === undefined) return;
    if (!this.#isOver(value, results.step.number())) return;
    this.#over = true;
    const { value: best, step } = this.#best as { value: number; step: number };
    this.#log(
      `no better than ${best}, of step ${step}, for ${results.step.number() - step} steps: training ends`,
    );
    await context.session.run(this.#raise);
    context.requestStop();
  }

  #isOver(value: number, step: number): boolean {
    const { mode = 'min', minDelta = 0, minSteps = 0, maxStepsWithoutImprovement } = this.#options;
    // After a restore the step may lie before that of the best value: count from there.
    if (this.#best && step < this.#best.step) this.#best = { ...this.#best, step };
    if (!this.#best || isBetter(value, this.#best.value, mode, minDelta)) {
      this.#best = { value, step };
      return false;
    }
    return step >= minSteps && step - this.#best.step >= maxStepsWithoutImprovement;
  }
}
