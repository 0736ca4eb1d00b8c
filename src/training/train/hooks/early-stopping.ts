/**
 * Stops training when a metric has not improved for a number of steps. The chief watches the metric and sets a flag on
 * the device of the global step; the hook of every worker reads the flag and stops too. Checkpoints do not contain the
 * flag: a job that is restarted with other settings continues training.
 */

import { invalid } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Operation, Output, OutputLike } from '../../../tensorflow/graph/operation.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { getGlobalStep } from '../../../tensorflow/variables/global-step.js';
import { Variable } from '../../../tensorflow/variables/variable.js';
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
  /** A tensor that each run fetches, or a function that returns the latest value, for example of an evaluation. */
  readonly metric: OutputLike | string | (() => number | undefined);
  /** Whether a smaller or a larger value is better; default: 'min'. */
  readonly mode?: Mode;
  /** Training stops after this many steps without an improvement. */
  readonly maxStepsWithoutImprovement: number;
  /** The smallest change that counts as an improvement. Default: 0. */
  readonly minDelta?: number;
  /** Training does not stop before this step. Default: 0. */
  readonly minSteps?: number;
  /** Whether this task watches the metric; other tasks only read the flag. Default: true. */
  readonly isChief?: boolean;
}

export interface EarlyStoppingResults {
  readonly step: Tensor<'int64'>;
  readonly flag: Tensor<'bool'>;
  readonly metric: Tensor | undefined;
}

export class EarlyStoppingHook extends SessionRunHook<EarlyStoppingResults> {
  readonly #options: EarlyStoppingOptions;
  #step!: Output<'int64'>;
  #flag!: Variable<'bool'>;
  #raise!: Operation;
  #log!: Log;
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
        device,
      });
      this.#raise = this.#flag.assign(Tensor.of(true));
    });
  }

  override beforeRun(): SessionRunArgs {
    const { metric, isChief = true } = this.#options;
    const watched = isChief && typeof metric !== 'function' ? metric : undefined;
    return { fetches: { step: this.#step, flag: this.#flag, metric: watched } };
  }

  override async afterRun(
    context: SessionRunContext,
    { results }: SessionRunValues<EarlyStoppingResults>,
  ): Promise<void> {
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
    const now = results.step.number();
    this.#log(
      `no improvement on ${best}, of step ${step}, for ${now - step} steps: stopping training`,
      'info',
      { event: 'earlyStop', reason: 'noImprovement', step: now, best: { value: best, step } },
    );
    await context.session.run(this.#raise);
    context.requestStop();
  }

  #isOver(value: number, step: number): boolean {
    const { mode = 'min', minDelta = 0, minSteps = 0, maxStepsWithoutImprovement } = this.#options;
    // After a restore the step may be before that of the best value: count from the restored step.
    if (this.#best && step < this.#best.step) this.#best = { ...this.#best, step };
    if (!this.#best || isBetter(value, this.#best.value, mode, minDelta)) {
      this.#best = { value, step };
      return false;
    }
    return step >= minSteps && step - this.#best.step >= maxStepsWithoutImprovement;
  }
}
