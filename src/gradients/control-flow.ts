/** Gradients through cond and while. */
import type { GradientTable } from './registry.js';

export const controlFlowGradients: GradientTable = {};
