/** Gradient checks for binary functions. */
import { binaryFunctionCases } from '../testing/cases/math-binary.js';
import { checkGradients } from '../testing/check.js';

checkGradients(binaryFunctionCases);
