/** Gradient checks for elementwise arithmetic. */
import { arithmeticCases } from '../testing/cases/arithmetic.js';
import { checkGradients } from '../testing/check.js';

checkGradients(arithmeticCases);
