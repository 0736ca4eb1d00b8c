/** Gradient checks for select and clip ops. */
import { selectCases } from '../testing/cases/select.js';
import { checkGradients } from '../testing/check.js';

checkGradients(selectCases);
