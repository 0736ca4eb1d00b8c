/** Options of the recurrent layers. */
import type { Names } from '../../../base/errors/option-names.js';
import type { Output } from '../../graph/operation.js';
import type { TensorLike } from '../../tensor/tensor.js';
import type { Initializer } from '../../variables/initializers.js';
import type { Activation, ActivationName } from '../activations.js';
import type { Regularizer } from '../regularizers.js';
import { AFFINE_NAMES, type AffineOptions } from '../weights.js';

/** The default of `activation` is `tanh`. */
export interface RecurrentOptions extends AffineOptions {
  /** The initializer of the recurrent kernel, or its initial value; default: orthogonal. */
  readonly recurrentInitializer?: Initializer | TensorLike;
  /** The penalty on the recurrent kernel; default: none. */
  readonly recurrentRegularizer?: Regularizer;
  /** Whether the sequence is read from its end; the results are then in that order. Default: false. */
  readonly goBackwards?: boolean;
  /** The fraction of input features to drop in training, the same at all steps. Default: 0. */
  readonly dropout?: number;
  /** The fraction of the recurrent state to drop in training, the same at all steps. Default: 0. */
  readonly recurrentDropout?: number;
  /** Whether elements are dropped; default: false. */
  readonly training?: boolean;
  /** [batch, steps], false for steps without data, which leave the state as it is. Default: none. */
  readonly mask?: Output | undefined;
  /** The state before the first step; default: zeros. */
  readonly initialState?: readonly Output[];
}

/** The default of `recurrentActivation` is `sigmoid`. */
export interface LstmOptions extends RecurrentOptions {
  /** The activation of the gates, or its name; default: `sigmoid`. */
  readonly recurrentActivation?: Activation | ActivationName;
  /** Whether the bias of the forget gate begins at 1. Default: true. */
  readonly unitForgetBias?: boolean;
}

export interface GruOptions extends RecurrentOptions {
  /** The activation of the gates, or its name; default: `sigmoid`. */
  readonly recurrentActivation?: Activation | ActivationName;
  /** Whether the reset gate is applied after the multiplication, as in cuDNN; default: true. */
  readonly resetAfter?: boolean;
}

export const RECURRENT_NAMES: Names<RecurrentOptions> = {
  ...AFFINE_NAMES,
  recurrentInitializer: true,
  recurrentRegularizer: true,
  goBackwards: true,
  dropout: true,
  recurrentDropout: true,
  training: true,
  mask: true,
  initialState: true,
};
export const LSTM_NAMES: Names<LstmOptions> = {
  ...RECURRENT_NAMES,
  recurrentActivation: true,
  unitForgetBias: true,
};
export const GRU_NAMES: Names<GruOptions> = {
  ...RECURRENT_NAMES,
  recurrentActivation: true,
  resetAfter: true,
};

export interface RecurrentResult {
  /** The output of the last step, [batch, units]. */
  readonly last: Output;
  /** The outputs of all steps, [batch, steps, units]; undefined unless requested. */
  readonly sequence: Output | undefined;
  /** The state after the last step. */
  readonly state: readonly Output[];
}
