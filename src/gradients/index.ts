/** Symbolic gradients. */
export { type Differentiable, type GradientOptions, gradients } from './gradients.js';
export { type Gradient, IndexedSlices } from './indexed-slices.js';
