/** Activations by name. */
import { invalid } from '../errors/errors.js';
import type { Activation } from '../layers/weights.js';
import { tanh } from '../ops/math.js';
import { elu, relu, selu, sigmoid, softmax, softplus } from '../ops/nn.js';

const ACTIVATIONS = {
  elu: (x) => elu(x),
  linear: (x) => x,
  relu: (x) => relu(x),
  selu: (x) => selu(x),
  sigmoid: (x) => sigmoid(x),
  softmax: (x) => softmax(x),
  softplus: (x) => softplus(x),
  tanh: (x) => tanh(x),
} satisfies Record<string, Activation>;

export type ActivationName = keyof typeof ACTIVATIONS;

export function activationOf(given: ActivationName | Activation): Activation {
  if (typeof given === 'function') return given;
  const found: Activation | undefined = ACTIVATIONS[given];
  if (found) return found;
  throw invalid(`There is no activation '${given}'`, {
    hint: `The activations are ${Object.keys(ACTIVATIONS).join(', ')}, or any function such as tf.relu.`,
  });
}
