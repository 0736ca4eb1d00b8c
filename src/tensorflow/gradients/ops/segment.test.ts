/** Gradient checks for segment sums. */

import { segmentCases } from '../testing/cases/segment.js';
import { checkGradients } from '../testing/check.js';

checkGradients(segmentCases);
