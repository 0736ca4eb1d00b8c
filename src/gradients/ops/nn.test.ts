/** The gradients of activations, losses and normalisation, checked. */

import { nnCases } from '../testing/cases/nn.js';
import { checkGradients } from '../testing/check.js';

checkGradients(nnCases);
