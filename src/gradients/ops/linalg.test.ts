/** The gradients of linear algebra, checked. */
import { linalgCases } from '../testing/cases/linalg.js';
import { checkGradients } from '../testing/check.js';

checkGradients(linalgCases);
