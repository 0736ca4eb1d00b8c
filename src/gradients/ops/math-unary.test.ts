/** The gradients of functions of one number, checked. */
import { unaryCases } from '../testing/cases/math-unary.js';
import { checkGradients } from '../testing/check.js';

checkGradients(unaryCases);
