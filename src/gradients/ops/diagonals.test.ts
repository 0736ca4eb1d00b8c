/** The gradients of diagonals and bands, checked. */
import { diagonalCases } from '../testing/cases/diagonals.js';
import { checkGradients } from '../testing/check.js';

checkGradients(diagonalCases);
