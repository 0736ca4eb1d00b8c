/** The gradients of matrix products, checked. */
import { matMulCases } from '../testing/cases/matmul.js';
import { checkGradients } from '../testing/check.js';

checkGradients(matMulCases);
