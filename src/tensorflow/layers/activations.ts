/** Activations by name. */
import { invalid } from '../../base/errors/errors.js';
import type { Output } from '../graph/operation.js';
import type { Operand } from '../ops/build.js';
import { tanh } from '../ops/math.js';
import { elu, gelu, relu, selu, sigmoid, softmax, softplus } from '../ops/nn.js';

/** A function applied to a layer's result, such as `tf.relu`. */
export type Activation = (x: Output) => Operand;

const ACTIVATIONS = {
  elu: (x) => elu(x),
  gelu: (x) => gelu(x),
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
