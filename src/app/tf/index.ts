/**
 * The `tf` of `import { tf } from 'shoal'`: TensorFlow's names for building graphs. Each module's `index.ts` lists what
 * it makes public, name by name; test/api shows the result.
 */

export {
  type ReplicaDeviceSetterOptions,
  replicaDeviceSetter,
} from '../../distributed/cluster/spec/device-setter.js';
export * from '../../tensorflow/gradients/index.js';
export {
  type ArgumentSpec,
  type GraphFunction,
  type TraceOptions,
  traceFunction,
} from '../../tensorflow/graph/function.js';
export { currentGraph as getDefaultGraph, Graph, resetDefaultGraph } from '../../tensorflow/graph/graph.js';
export {
  addToCollection,
  addToCollections,
  colocateWith,
  controlDependencies,
  device,
  getCollection,
  nameScope,
} from '../../tensorflow/graph/scopes.js';
export * from '../../tensorflow/layers/index.js';
export * as lookup from '../../tensorflow/lookup/index.js';
export * from '../../tensorflow/ops/index.js';
export { Session } from '../../tensorflow/session/session.js';
export * as summary from '../../tensorflow/summary/index.js';
export { Tensor } from '../../tensorflow/tensor/tensor.js';
export * from '../../tensorflow/variables/index.js';
export * as featureColumn from '../../training/feature-column/index.js';
export * as data from '../../training/input/data.js';
export {
  fixedLenFeature,
  fixedLenSequenceFeature,
  parseExample,
  varLenFeature,
} from '../../training/input/dataset/parse-example.js';
export * as keras from '../keras/index.js';
export * from './aliases.js';
export * from './dtypes.js';
export * as initializers from './initializers.js';
export * as io from './io.js';
export * as math from './math.js';
export * as nn from './nn.js';
export * as random from './random.js';
export * as savedModel from './saved-model.js';
export * as strings from './strings.js';
export * as train from './train.js';
