/** Gradient checks for lookups, scatters and variables. */

import { gatherCases } from '../testing/cases/gather.js';
import { checkGradients } from '../testing/check.js';

checkGradients(gatherCases);
