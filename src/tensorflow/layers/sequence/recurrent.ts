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
  checkCount(cell.layer, 'units', units);
  const given = asOutput(inputs);
  checkRank(cell.layer, given, 3);
  const features = knownSize(cell.layer, given, -1);
  const { recurrentDropout = 0, training = false } = options;
  return layerScope(given, cell.scope, options, () => {
    const weights = cellWeights(cell, given, features, units, options);
    const sizes = raw.shape(given);
    const batch = slice(sizes, [0], [1]).reshape([]);
    const [knownBatch = null, knownSteps = null] = given.shape as readonly (number | null)[];
    const width = cell.gates * units;
    const x = preparedInput(given, batch, features, options);
    const product = matMul(reshape(x, [-1, features]), weights.kernel);
    const biased = weights.bias ? biasAdd(product, weights.bias) : product;
    const steps = reshape(biased, concat([slice(sizes, [0], [2]), [width]], 0));
    const zeros = () => fill(stack([batch, units]), asOutput(0, given.dtype)).setShape([knownBatch, units]);
    const state = options.initialState ?? Array.from({ length: cell.states }, zeros);
    if (state.length !== cell.states)
      throw invalid(`Layer ${cell.layer} has ${cell.states} states; it got ${state.length} initial ones`);
    const kept =
      training && recurrentDropout > 0
        ? dropout(raw.onesLike(state[0] as Output), { rate: recurrentDropout, training })
        : undefined;
    return scan({
      inputs: transpose(steps.setShape([knownBatch, knownSteps, width]), [1, 0, 2]),
      mask: options.mask && options.goBackwards ? reverse(options.mask, [1]) : options.mask,
      state: state.map((one) => one.setShape([knownBatch, units])),
      step: (input, [h, ...others]) =>
        cell.step(input, [kept ? mul(h as Output, kept) : (h as Output), ...others], weights.step),
      keepsAll,
    });
  });
}

interface CellWeights {
  readonly kernel: Output;
  /** What is added to the inputs. */
  readonly bias: Output | undefined;
  readonly step: StepWeights;
}

function cellWeights(
  cell: Cell,
  { dtype }: Output,
  features: number,
  units: number,
  options: RecurrentOptions,
): CellWeights {
  const width = cell.gates * units;
  const make = (
    name: string,
    shape: readonly number[],
    key: 'kernel' | 'recurrent' | 'bias',
    initializer: RecurrentOptions['kernelInitializer'],
  ) =>
    weight(name, {
      shape,
      dtype,
      trainable: options.trainable,
      initializer,
      regularizer: options[`${key}Regularizer`],
    }).toOutput();
  const kernel = make('kernel', [features, width], 'kernel', options.kernelInitializer);
  const recurrentInitializer = options.recurrentInitializer ?? orthogonal();
  const recurrentKernel = make('recurrent_kernel', [units, width], 'recurrent', recurrentInitializer);
  if (options.useBias === false)
    return { kernel, bias: undefined, step: { kernel: recurrentKernel, bias: undefined } };
  const biasInitializer = cell.biasInitializer ?? options.biasInitializer ?? zerosInitializer();
  if (!cell.hasStateBias) {
    const bias = make('bias', [width], 'bias', biasInitializer);
    return { kernel, bias, step: { kernel: recurrentKernel, bias: undefined } };
  }
  const both = make('bias', [2, width], 'bias', biasInitializer);
  const row = (at: number) => reshape(slice(both, [at, 0], [1, -1]), [-1]);
  return { kernel, bias: row(0), step: { kernel: recurrentKernel, bias: row(1) } };
}

/** The input with its dropout, which is the same in all steps, and in the order of the loop. */
function preparedInput(
  given: Output,
  batch: Output,
  features: number,
  { dropout: rate = 0, training = false, goBackwards = false }: RecurrentOptions,
): Output {
  const noiseShape = () => stack([batch, 1, features]);
  const x = training && rate > 0 ? dropout(given, { rate, training, noiseShape: noiseShape() }) : given;
  return goBackwards ? reverse(x, [1]) : x;
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
