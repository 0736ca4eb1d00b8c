/** The gradients of functions of two numbers, checked. */
import { binaryFunctionCases } from '../testing/cases/math-binary.js';
import { checkGradients } from '../testing/check.js';

checkGradients(binaryFunctionCases);
