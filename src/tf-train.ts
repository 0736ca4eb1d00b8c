/**
 * The `tf.train` of `import { tf } from 'shoal'`: optimizers, TensorFlow 1's queue input, and everything of `shoal/train`:
 * servers, training sessions, hooks, savers.
 */
export { ClusterSpec } from './cluster/spec/cluster-spec.js';
export { replicaDeviceSetter } from './cluster/spec/device-setter.js';
export * from './input/queues/queues.js';
export * from './optimizers/index.js';
export {
  piecewiseConstant as piecewiseConstantDecay,
  RmsPropOptimizer as RMSPropOptimizer,
} from './optimizers/index.js';
export * from './train/index.js';
export {
  createGlobalStep,
  exportMetaGraph,
  getGlobalStep,
  getOrCreateGlobalStep,
  importMetaGraph,
} from './variables/index.js';
