/** Symbolic gradients. */
export { type Differentiable, type GradientOptions, gradients, isDifferentiableType } from './gradients.js';
export { type Gradient, IndexedSlices } from './indexed-slices.js';
