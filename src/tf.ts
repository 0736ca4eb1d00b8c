/**
 * The `tf` of `import { tf } from 'shoal'`: TensorFlow's names for building graphs. Each module's `index.ts` lists what
 * it makes public, name by name; test/api shows the result.
 */

export { type ReplicaDeviceSetterOptions, replicaDeviceSetter } from './cluster/spec/device-setter.js';
export * from './gradients/index.js';
export { type ArgumentSpec, type GraphFunction, type TraceOptions, traceFunction } from './graph/function.js';
export { currentGraph as getDefaultGraph, Graph, resetDefaultGraph } from './graph/graph.js';
export {
  addToCollection,
  addToCollections,
  colocateWith,
  controlDependencies,
  device,
  getCollection,
  nameScope,
} from './graph/scopes.js';
export * as data from './input/data.js';
export {
  fixedLenFeature,
  fixedLenSequenceFeature,
  parseExample,
  varLenFeature,
} from './input/dataset/parse-example.js';
export * as keras from './keras/index.js';
export * from './layers/index.js';
export * as lookup from './lookup/index.js';
export * from './ops/index.js';
export { Session } from './session/session.js';
export * as summary from './summary/index.js';
export { Tensor } from './tensor/tensor.js';
export * from './tf-aliases.js';
export * from './tf-dtypes.js';
export * as initializers from './tf-initializers.js';
export * as io from './tf-io.js';
export * as math from './tf-math.js';
export * as nn from './tf-nn.js';
export * as random from './tf-random.js';
export * as savedModel from './tf-saved-model.js';
export * as strings from './tf-strings.js';
export * as train from './tf-train.js';
export * from './variables/index.js';
