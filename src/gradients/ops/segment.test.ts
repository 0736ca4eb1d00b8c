/** The gradients of sums over segments, checked. */

import { segmentCases } from '../testing/cases/segment.js';
import { checkGradients } from '../testing/check.js';

checkGradients(segmentCases);
