/** Gradient checks for diagonals and bands. */
import { diagonalCases } from '../testing/cases/diagonals.js';
import { checkGradients } from '../testing/check.js';

checkGradients(diagonalCases);
