/** Gradient checks for convolution, pooling and resizing. */

import { convCases } from '../testing/cases/conv.js';
import { checkGradients } from '../testing/check.js';

checkGradients(convCases);
