/** Gradient checks for reductions and cumulative sums. */
import { allReductionCases } from '../testing/cases/reductions.js';
import { checkGradients } from '../testing/check.js';

checkGradients(allReductionCases);
