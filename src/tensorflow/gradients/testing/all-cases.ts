/** The checked cases of all families. */
import type { GradientCase } from './case.js';
import { arithmeticCases } from './cases/arithmetic.js';
import { arrayCases } from './cases/arrays.js';
import { controlFlowCases } from './cases/control-flow.js';
import { convCases } from './cases/conv.js';
import { diagonalCases } from './cases/diagonals.js';
import { gatherCases } from './cases/gather.js';
import { linalgCases } from './cases/linalg.js';
import { binaryFunctionCases } from './cases/math-binary.js';
import { specialCases } from './cases/math-special.js';
import { unaryCases } from './cases/math-unary.js';
import { matMulCases } from './cases/matmul.js';
import { nnCases } from './cases/nn.js';
import { allReductionCases } from './cases/reductions.js';
import { segmentCases } from './cases/segment.js';
import { selectCases } from './cases/select.js';
import { sparseCases } from './cases/sparse.js';

export const allCases: readonly GradientCase[] = [
  ...allReductionCases,
  ...arithmeticCases,
  ...arrayCases,
  ...binaryFunctionCases,
  ...controlFlowCases,
  ...convCases,
  ...diagonalCases,
  ...gatherCases,
  ...linalgCases,
  ...matMulCases,
  ...nnCases,
  ...segmentCases,
  ...selectCases,
  ...sparseCases,
  ...specialCases,
  ...unaryCases,
];
