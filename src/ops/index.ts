/** The friendly layer: TensorFlow.js's names where the two mean the same. Everything else is under `raw`. */
import './chain.js';

export * from './arrays.js';
export { asOutput, type BuildOptions, type Operand } from './build.js';
export * from './control-flow.js';
export * from './creation.js';
export * as raw from './generated/index.js';
export * from './math.js';
export * from './nn.js';
export * from './random.js';
