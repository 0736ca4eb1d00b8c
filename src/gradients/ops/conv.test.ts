/** The gradients of convolution, pooling and resizing, checked. */

import { convCases } from '../testing/cases/conv.js';
import { checkGradients } from '../testing/check.js';

checkGradients(convCases);
