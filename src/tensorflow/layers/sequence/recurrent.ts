/**
 * Recurrent layers over [batch, steps, features]: one loop of the graph. The inputs of all steps are multiplied by the
 * kernel at once, before the loop; the body of the loop multiplies only the state.
 */
import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../graph/operation.js';
import { concat, reshape, reverse, slice, split, stack, transpose } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import { fill } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { add, matMul, mul, sub } from '../../ops/math.js';
import { biasAdd } from '../../ops/nn.js';
import {
  constantInitializer,
  type Initializer,
  onesInitializer,
  orthogonal,
  zerosInitializer,
} from '../../variables/initializers.js';
import { activationOf } from '../activations.js';
import { dropout } from '../dropout.js';
import { layerScope } from '../layer-scope.js';
import { checkCount, checkRank, knownSize, layerOptions, weight } from '../weights.js';
import {
  GRU_NAMES,
  type GruOptions,
  LSTM_NAMES,
  type LstmOptions,
  RECURRENT_NAMES,
  type RecurrentOptions,
  type RecurrentResult,
} from './options.js';
import { scan } from './scan.js';

/** What distinguishes the kinds of recurrent layers. */
interface Cell {
  readonly layer: 'simpleRnn' | 'lstm' | 'gru';
  readonly scope: string;
  /** How many times `units` columns the kernels have. */
  readonly gates: number;
  /** How many tensors are its state. */
  readonly states: number;
  readonly biasInitializer?: Initializer;
  /** Whether the state has a bias of its own. */
  readonly hasStateBias?: boolean;
  /** One step; `x` is the input times its kernel, with its bias; `times` multiplies by the recurrent kernel. */
  readonly step: (x: Output, state: readonly Output[], weights: StepWeights) => readonly Output[];
}

interface StepWeights {
  readonly kernel: Output;
  readonly bias: Output | undefined;
}

export type KeepsAll = { readonly keepsAll?: boolean };

/** h ← activation(x·W + h·U + b). Variables `simple_rnn/kernel`, `recurrent_kernel` and `bias`. */
export function simpleRnn(
  inputs: Operand,
  units: number,
  given: OrNull<RecurrentOptions> = {},
  kept: KeepsAll = {},
): RecurrentResult {
  const options = layerOptions('simpleRnn', RECURRENT_NAMES, given);
  const activate = activationOf(options.activation ?? 'tanh');
  const cell: Cell = {
    layer: 'simpleRnn',
    scope: 'simple_rnn',
    gates: 1,
    states: 1,
    step: (x, [h], { kernel }) => [asOutput(activate(add(x, matMul(h as Output, kernel))))],
  };
  return recurrent(cell, inputs, units, options, kept);
}

/**
 * Gates i, f, g, o from x·W + h·U + b: c ← σ(f)·c + σ(i)·activation(g), h ← σ(o)·activation(c). Variables `lstm/kernel`,
 * `recurrent_kernel` and `bias`; the state is h and c.
 */
export function lstm(
  inputs: Operand,
  units: number,
  given: OrNull<LstmOptions> = {},
  kept: KeepsAll = {},
): RecurrentResult {
  const options = layerOptions('lstm', LSTM_NAMES, given);
  const activate = activationOf(options.activation ?? 'tanh');
  const gate = activationOf(options.recurrentActivation ?? 'sigmoid');
  const cell: Cell = {
    layer: 'lstm',
    scope: 'lstm',
    gates: 4,
    states: 2,
    ...(options.unitForgetBias !== false && { biasInitializer: forgetBias(options.biasInitializer) }),
    step: (x, [h, c], { kernel }) => {
      const [i, f, g, o] = split(add(x, matMul(h as Output, kernel)), 4, -1) as Output[];
      const cellState = add(
        mul(gate(f as Output), c as Output),
        mul(gate(i as Output), activate(g as Output)),
      );
      return [mul(gate(o as Output), activate(cellState)), cellState];
    },
  };
  return recurrent(cell, inputs, units, options, kept);
}

/**
 * Gates z and r, candidate g: h ← σ(z)·h + (1 - σ(z))·g. Variables `gru/kernel`, `recurrent_kernel` and `bias`, with
 * two rows if the reset gate is applied after the multiplication.
 */
export function gru(
  inputs: Operand,
  units: number,
  given: OrNull<GruOptions> = {},
  kept: KeepsAll = {},
): RecurrentResult {
  const options = layerOptions('gru', GRU_NAMES, given);
  const activate = activationOf(options.activation ?? 'tanh');
  const gate = activationOf(options.recurrentActivation ?? 'sigmoid');
  const resetAfter = options.resetAfter ?? true;
  const mixed = (z: Output, h: Output, candidate: Operand) => [add(mul(z, h), mul(sub(1, z), candidate))];
  const cell: Cell = {
    layer: 'gru',
    scope: 'gru',
    gates: 3,
    states: 1,
    hasStateBias: resetAfter,
    step: (x, [state], { kernel, bias }) => {
      const h = state as Output;
      const [xz, xr, xg] = split(x, 3, -1) as [Output, Output, Output];
      if (resetAfter) {
        const inner = matMul(h, kernel);
        const [hz, hr, hg] = split(bias ? biasAdd(inner, bias) : inner, 3, -1) as [Output, Output, Output];
        const [z, r] = [asOutput(gate(add(xz, hz))), gate(add(xr, hr))];
        return mixed(z, h, activate(add(xg, mul(r, hg))));
      }
      const inner = matMul(h, slice(kernel, [0, 0], [-1, 2 * units]));
      const [hz, hr] = split(inner, 2, -1) as [Output, Output];
      const [z, r] = [asOutput(gate(add(xz, hz))), gate(add(xr, hr))];
      const g = matMul(asOutput(mul(r, h)), slice(kernel, [0, 2 * units], [-1, units]));
      return mixed(z, h, activate(add(xg, g)));
    },
  };
  return recurrent(cell, inputs, units, options, kept);
}

function recurrent(
  cell: Cell,
  inputs: Operand,
  units: number,
  options: RecurrentOptions,
  { keepsAll = false }: KeepsAll,
): RecurrentResult {
  const { layer, gates } = cell;
  checkCount(layer, 'units', units);
  const given = asOutput(inputs);
  checkRank(layer, given, 3);
  const features = knownSize(layer, given, -1);
  const {
    goBackwards = false,
    dropout: rate = 0,
    recurrentDropout = 0,
    training = false,
    useBias = true,
  } = options;
  return layerScope(given, cell.scope, options, () => {
    const make = (
      name: string,
      shape: readonly number[],
      key: 'kernel' | 'recurrent' | 'bias',
      fallback?: Initializer,
    ) =>
      weight(name, {
        shape,
        dtype: given.dtype,
        trainable: options.trainable,
        initializer: options[`${key}Initializer`] ?? fallback,
        regularizer: options[`${key}Regularizer`],
      }).toOutput();
    const width = gates * units;
    const kernel = make('kernel', [features, width], 'kernel');
    const recurrentKernel = make('recurrent_kernel', [units, width], 'recurrent', orthogonal());
    const biasShape = cell.hasStateBias ? [2, width] : [width];
    const bias = useBias
      ? cell.biasInitializer
        ? weight('bias', {
            shape: biasShape,
            dtype: given.dtype,
            trainable: options.trainable,
            initializer: cell.biasInitializer,
            regularizer: options.biasRegularizer,
          }).toOutput()
        : make('bias', biasShape, 'bias', zerosInitializer())
      : undefined;
    const row = (at: number) =>
      bias && cell.hasStateBias ? reshape(slice(bias, [at, 0], [1, -1]), [-1]) : bias;
    const sizes = raw.shape(given);
    const batch = slice(sizes, [0], [1]).reshape([]);
    let x = given;
    if (training && rate > 0) {
      const noiseShape = stack([batch, 1, features]);
      x = dropout(x, { rate, training, noiseShape });
    }
    if (goBackwards) x = reverse(x, [1]);
    const mask = options.mask && goBackwards ? reverse(options.mask, [1]) : options.mask;
    const known = given.shape as readonly (number | null)[];
    const product = matMul(reshape(x, [-1, features]), kernel);
    const own = row(0);
    const steps = reshape(
      own ? biasAdd(product, own) : product,
      concat([slice(sizes, [0], [2]), [width]], 0),
    );
    const zeros = () =>
      fill(stack([batch, units]), asOutput(0, given.dtype)).setShape([known[0] ?? null, units]);
    const state = options.initialState ?? Array.from({ length: cell.states }, zeros);
    if (state.length !== cell.states)
      throw invalid(`Layer ${layer} has ${cell.states} states; it got ${state.length} initial ones`);
    const kept =
      training && recurrentDropout > 0
        ? dropout(raw.onesLike(state[0] as Output), { rate: recurrentDropout, training })
        : undefined;
    const weights: StepWeights = { kernel: recurrentKernel, bias: cell.hasStateBias ? row(1) : undefined };
    return scan({
      inputs: transpose(steps.setShape([known[0] ?? null, known[1] ?? null, width]), [1, 0, 2]),
      mask,
      state: state.map((one) => one.setShape([known[0] ?? null, units])),
      step: (input, [h, ...others]) =>
        cell.step(input, [kept ? mul(h as Output, kept) : (h as Output), ...others], weights),
      keepsAll,
    });
  });
}

/** The bias of the forget gate, the second of four, is 1. */
function forgetBias(given: LstmOptions['biasInitializer']): Initializer {
  const own =
    given === undefined
      ? zerosInitializer()
      : typeof given === 'function'
        ? given
        : constantInitializer(given);
  // A complete value is used as it is.
  if (given !== undefined && typeof given !== 'function' && typeof given !== 'number') return own;
  return (shape, dtype) => {
    const units = (shape[0] as number) / 4;
    return concat([own([units], dtype), onesInitializer()([units], dtype), own([2 * units], dtype)], 0);
  };
}
