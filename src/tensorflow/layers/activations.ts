/** Activations by name. */
import { invalid } from '../../base/errors/errors.js';
import { closestName } from '../../base/errors/option-names.js';
import type { Output } from '../graph/operation.js';
import type { Operand } from '../ops/build.js';
import { div, exp, mul, tanh } from '../ops/math.js';
import {
  elu,
  gelu,
  leakyRelu,
  logSoftmax,
  relu,
  relu6,
  selu,
  sigmoid,
  softmax,
  softplus,
  softsign,
  swish,
} from '../ops/nn.js';

/** A function applied to a layer's result, such as `tf.relu`. */
export type Activation = (x: Output) => Operand;

const ACTIVATIONS = {
  elu: (x) => elu(x),
  exponential: (x) => exp(x),
  gelu: (x) => gelu(x),
  hardSigmoid: (x) => div(relu6(x.add(3)), 6),
  leakyRelu: (x) => leakyRelu(x, 0.2),
  linear: (x) => x,
  logSoftmax: (x) => logSoftmax(x),
  mish: (x) => mul(x, tanh(softplus(x))),
  relu: (x) => relu(x),
  relu6: (x) => relu6(x),
  selu: (x) => selu(x),
  sigmoid: (x) => sigmoid(x),
  silu: (x) => swish(x),
  softmax: (x) => softmax(x),
  softplus: (x) => softplus(x),
  softsign: (x) => softsign(x),
  swish: (x) => swish(x),
  tanh: (x) => tanh(x),
} satisfies Record<string, Activation>;

/** The functions of ops that have a name here too. */
const FUNCTIONS = new Map<unknown, ActivationName>([
  [elu, 'elu'],
  [exp, 'exponential'],
  [relu, 'relu'],
  [relu6, 'relu6'],
  [selu, 'selu'],
  [sigmoid, 'sigmoid'],
  [softmax, 'softmax'],
  [softplus, 'softplus'],
  [softsign, 'softsign'],
  [swish, 'swish'],
  [tanh, 'tanh'],
]);

export type ActivationName = keyof typeof ACTIVATIONS;

/** `leaky_relu` is `leakyRelu`. */
const camel = (name: string): string =>
  name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

export function activationOf(given: ActivationName | Activation): Activation {
  if (typeof given === 'function') return given;
  const name = camel(String(given));
  if (Object.hasOwn(ACTIVATIONS, name)) return ACTIVATIONS[name as ActivationName];
  const names = Object.keys(ACTIVATIONS);
  const closest = closestName(name, names);
  throw invalid(`There is no activation '${given}'`, {
    hint: `${closest ? `Did you mean '${closest}'? ` : ''}The activations are ${names.join(', ')}, or any function such as tf.relu.`,
  });
}

/** The name of an activation; undefined for a function without one. */
export const activationName = (given: ActivationName | Activation): ActivationName | undefined =>
  typeof given === 'string' ? (camel(given) as ActivationName) : FUNCTIONS.get(given);
