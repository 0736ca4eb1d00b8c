/** Gradient checks for sparse tensors. */

import { sparseCases } from '../testing/cases/sparse.js';
import { checkGradients } from '../testing/check.js';

checkGradients(sparseCases);
