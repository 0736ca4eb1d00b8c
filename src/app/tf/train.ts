/**
 * The `tf.train` of `import { tf } from 'shoal'`: optimizers, TensorFlow 1's queue input, and everything of `shoal/train`:
 * servers, training sessions, hooks, savers.
 */
export { ClusterSpec } from '../../distributed/cluster/spec/cluster-spec.js';
export { replicaDeviceSetter } from '../../distributed/cluster/spec/device-setter.js';
export * from '../../tensorflow/optimizers/index.js';
export {
  piecewiseConstant as piecewiseConstantDecay,
  RmsPropOptimizer as RMSPropOptimizer,
} from '../../tensorflow/optimizers/index.js';
export {
  createGlobalStep,
  exportMetaGraph,
  getGlobalStep,
  getOrCreateGlobalStep,
  importMetaGraph,
} from '../../tensorflow/variables/index.js';
export * from '../../training/input/queues/queues.js';
export * from '../../training/train/index.js';
