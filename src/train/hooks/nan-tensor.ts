/** Fails or stops training when the loss is NaN. */
import { ShoalError } from '../../errors/errors.js';
import type { OutputLike } from '../../graph/operation.js';
import type { Tensor } from '../../tensor/tensor.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';

export class NanTensorHook extends SessionRunHook<Tensor> {
  readonly #loss: OutputLike | string;
  readonly #failOnNanLoss: boolean;
  #log!: (line: string) => void;

  /** With `failOnNanLoss` NaN is an error, without it training stops; default: true. */
  constructor(
    loss: OutputLike | string,
    { failOnNanLoss = true }: { readonly failOnNanLoss?: boolean } = {},
  ) {
    super();
    this.#loss = loss;
    this.#failOnNanLoss = failOnNanLoss;
  }

  override begin({ log }: HookSetup): void {
    this.#log = log;
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#loss };
  }

  override afterRun(context: SessionRunContext, { results }: SessionRunValues<Tensor>): void {
    const values = [results.toArray()].flat(Number.POSITIVE_INFINITY) as unknown[];
    if (!values.some(Number.isNaN)) return;
    const name = typeof this.#loss === 'string' ? this.#loss : this.#loss.toOutput().name;
    const message = `${name} is NaN: the model has diverged`;
    if (this.#failOnNanLoss) {
      throw new ShoalError('SHOAL_NAN', message, {
        hint: 'Lower the learning rate, clip the gradients, or check the input.',
      });
    }
    this.#log(`${message}; stopping training`);
    context.requestStop();
  }
}
