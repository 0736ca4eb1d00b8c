/** The gradients of elementwise arithmetic, checked. */
import { arithmeticCases } from '../testing/cases/arithmetic.js';
import { checkGradients } from '../testing/check.js';

checkGradients(arithmeticCases);
