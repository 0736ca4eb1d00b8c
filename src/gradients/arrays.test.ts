/** The gradients of ops that move elements, checked. */
import { arrayCases } from './testing/cases/arrays.js';
import { checkGradients } from './testing/check.js';

checkGradients(arrayCases);
