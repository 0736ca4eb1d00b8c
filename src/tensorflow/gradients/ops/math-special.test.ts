/** Gradient checks for special functions. */
import { specialCases } from '../testing/cases/math-special.js';
import { checkGradients } from '../testing/check.js';

checkGradients(specialCases);
