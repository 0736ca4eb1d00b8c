/** The gradients of choices, checked. */
import { selectCases } from '../testing/cases/select.js';
import { checkGradients } from '../testing/check.js';

checkGradients(selectCases);
