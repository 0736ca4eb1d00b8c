/** Gradient checks for linear algebra. */
import { linalgCases } from '../testing/cases/linalg.js';
import { checkGradients } from '../testing/check.js';

checkGradients(linalgCases);
