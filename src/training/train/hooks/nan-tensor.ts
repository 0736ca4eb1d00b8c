/** Fails or stops training when the loss is NaN. */

import { ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { OutputLike } from '../../../tensorflow/graph/operation.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { getGlobalStep } from '../../../tensorflow/variables/global-step.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import {
  type HookSetup,
  type MaybePromise,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';

const READ_MS = 10_000;

export class NanTensorHook extends SessionRunHook<Tensor> {
  readonly #loss: OutputLike | string;
  readonly #failOnNanLoss: boolean;
  #log!: Log;
  #task: string | undefined;
  #globalStep: Variable | undefined;

  /** With `failOnNanLoss` NaN is an error, without it training stops; default: true. */
  constructor(
    loss: OutputLike | string,
    { failOnNanLoss = true }: { readonly failOnNanLoss?: boolean } = {},
  ) {
    super();
    this.#loss = loss;
    this.#failOnNanLoss = failOnNanLoss;
  }

  override begin({ log, task, graph }: HookSetup): void {
    this.#log = log;
    this.#task = task;
    this.#globalStep = getGlobalStep(graph);
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#loss };
  }

  override afterRun(context: SessionRunContext, { results }: SessionRunValues<Tensor>): MaybePromise<void> {
    const values = [results.toArray()].flat(Number.POSITIVE_INFINITY) as unknown[];
    return values.some(Number.isNaN) ? this.#diverged(context) : undefined;
  }

  async #diverged(context: SessionRunContext): Promise<void> {
    const name = typeof this.#loss === 'string' ? this.#loss : this.#loss.toOutput().name;
    const where = this.#task === undefined ? '' : ` on ${this.#task}`;
    const message = `The loss ${name} is NaN${await this.#at(context)}${where}: the model has diverged`;
    if (this.#failOnNanLoss) {
      throw new ShoalError('SHOAL_NAN', message, {
        task: this.#task,
        hint: 'Lower the learning rate, clip the gradients, or check the input.',
      });
    }
    this.#log(`${message}; stopping training`, 'info', { event: 'earlyStop', reason: 'nan' });
    context.requestStop();
  }

  /** The global step, as far as it can be read: the other workers may have made steps meanwhile. */
  async #at({ session }: SessionRunContext): Promise<string> {
    if (!this.#globalStep) return '';
    const read = session.run(this.#globalStep.toOutput(), { timeoutMs: READ_MS });
    return read.then(
      (step) => ` at step ${step.number()}`,
      () => '',
    );
  }
}
