/** Gradient checks for unary functions. */
import { unaryCases } from '../testing/cases/math-unary.js';
import { checkGradients } from '../testing/check.js';

checkGradients(unaryCases);
