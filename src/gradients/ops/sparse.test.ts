/** The gradients of sparse tensors, checked. */

import { sparseCases } from '../testing/cases/sparse.js';
import { checkGradients } from '../testing/check.js';

checkGradients(sparseCases);
