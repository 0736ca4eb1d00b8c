/**
 * Gradients through cond, while and calls. Nothing of the forward pass is kept: a gradient recomputes what it
 * needs from the inputs of the op. So a body may read variables, but not draw random numbers or change state.
 */
import type { GraphFunction } from '../../graph/function.js';
import * as raw from '../../ops/generated/index.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { condGradient } from './cond.js';
import { functionGradients, repeatableFunctions } from './functions.js';
import { tensorListGradients } from './tensor-lists.js';
import { whileGradient } from './while.js';

const callGradient: GradientFunction = (op, grads, context) => {
  const [fn] = repeatableFunctions(op) as [GraphFunction];
  // Excludes other uses of the op's inputs.
  const args = op.inputs.map((input) => raw.identity(input));
  return functionGradients(fn, args, grads, context.needed, context);
};

const ifGradient: GradientFunction = (op, grads, context) =>
  condGradient(repeatableFunctions(op) as [GraphFunction, GraphFunction], op, grads, context);

const loopGradient: GradientFunction = (op, grads, context) =>
  whileGradient(repeatableFunctions(op) as [GraphFunction, GraphFunction], op, grads, context);

export const controlFlowGradients: GradientTable = {
  ...tensorListGradients,
  If: ifGradient,
  StatelessIf: ifGradient,
  While: loopGradient,
  StatelessWhile: loopGradient,
  PartitionedCall: callGradient,
  StatefulPartitionedCall: callGradient,
};
