/** The checked cases of all families. */
import type { GradientCase } from './case.js';
import { arithmeticCases } from './cases/arithmetic.js';

export const allCases: readonly GradientCase[] = [...arithmeticCases];
