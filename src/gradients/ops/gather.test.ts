/** The gradients of lookups, scatters and variables, checked. */

import { gatherCases } from '../testing/cases/gather.js';
import { checkGradients } from '../testing/check.js';

checkGradients(gatherCases);
