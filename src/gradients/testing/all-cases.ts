/** The checked cases of all families. */
import type { GradientCase } from './case.js';
import { arithmeticCases } from './cases/arithmetic.js';
import { arrayCases } from './cases/arrays.js';
import { convCases } from './cases/conv.js';
import { gatherCases } from './cases/gather.js';
import { nnCases } from './cases/nn.js';
import { segmentCases } from './cases/segment.js';
import { sparseCases } from './cases/sparse.js';

export const allCases: readonly GradientCase[] = [
  ...arithmeticCases,
  ...arrayCases,
  ...convCases,
  ...gatherCases,
  ...nnCases,
  ...segmentCases,
  ...sparseCases,
];
