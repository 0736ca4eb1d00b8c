/** The gradients of reductions and running sums, checked. */
import { allReductionCases } from '../testing/cases/reductions.js';
import { checkGradients } from '../testing/check.js';

checkGradients(allReductionCases);
