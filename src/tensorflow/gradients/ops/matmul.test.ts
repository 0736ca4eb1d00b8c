/** Gradient checks for matrix products. */
import { matMulCases } from '../testing/cases/matmul.js';
import { checkGradients } from '../testing/check.js';

checkGradients(matMulCases);
