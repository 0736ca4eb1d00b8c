/**
 * Gradient functions by op type. A gradient function receives the op and the gradients of its outputs (undefined if
 * there is none) and returns one gradient per input, or null. Each family of ops has a table in its own file.
 */

import type { GradientTable } from './gradient-function.js';
import { arithmeticGradients } from './ops/arithmetic.js';
import { arrayGradients } from './ops/arrays.js';
import { controlFlowGradients } from './ops/control-flow.js';
import { convGradients } from './ops/conv.js';
import { decompositionGradients } from './ops/decompositions.js';
import { diagonalGradients } from './ops/diagonals.js';
import { gatherGradients } from './ops/gather.js';
import { linalgGradients } from './ops/linalg.js';
import { binaryGradients } from './ops/math-binary.js';
import { specialGradients } from './ops/math-special.js';
import { unaryGradients } from './ops/math-unary.js';
import { matMulGradients } from './ops/matmul.js';
import { nnGradients } from './ops/nn.js';
import { randomGradients } from './ops/random.js';
import { reductionGradients } from './ops/reductions.js';
import { segmentGradients } from './ops/segment.js';
import { selectGradients } from './ops/select.js';
import { sparseGradients } from './ops/sparse.js';
import { variableGradients } from './ops/variables.js';

const GRADIENTS: GradientTable = {
  ...arithmeticGradients,
  ...arrayGradients,
  ...binaryGradients,
  ...controlFlowGradients,
  ...convGradients,
  ...decompositionGradients,
  ...diagonalGradients,
  ...gatherGradients,
  ...linalgGradients,
  ...matMulGradients,
  ...nnGradients,
  ...randomGradients,
  ...reductionGradients,
  ...segmentGradients,
  ...selectGradients,
  ...sparseGradients,
  ...specialGradients,
  ...unaryGradients,
  ...variableGradients,
};

/** undefined: the op is not registered. */
export function gradientOf(type: string): GradientTable[string] | undefined {
  return Object.hasOwn(GRADIENTS, type) ? GRADIENTS[type] : undefined;
}

/** The op types with a gradient in TypeScript. */
export function registeredGradients(): string[] {
  return Object.keys(GRADIENTS)
    .filter((type) => GRADIENTS[type] !== null)
    .sort();
}

/** The op types through which nothing flows back. */
export function opsWithoutGradient(): string[] {
  return Object.keys(GRADIENTS)
    .filter((type) => GRADIENTS[type] === null)
    .sort();
}
