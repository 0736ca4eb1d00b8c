/** Gradient checks for activations, losses and normalization. */

import { nnCases } from '../testing/cases/nn.js';
import { checkGradients } from '../testing/check.js';

checkGradients(nnCases);
