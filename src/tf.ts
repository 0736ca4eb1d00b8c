/** The `tf` of `import { tf } from 'shoal'`: TensorFlow's names for building graphs. */

export { replicaDeviceSetter } from './cluster/spec/device-setter.js';
export * from './gradients/index.js';
export { traceFunction } from './graph/function.js';
export { currentGraph as getDefaultGraph, Graph, resetDefaultGraph } from './graph/graph.js';
export { colocateWith, controlDependencies, device, nameScope } from './graph/scopes.js';
export * as data from './input/data.js';
export {
  fixedLenFeature,
  fixedLenSequenceFeature,
  parseExample,
  varLenFeature,
} from './input/dataset/parse-example.js';
export {
  assertFinite,
  checkFinite,
  checkNumerics,
  embeddingLookup,
  embeddingLookupSparse,
  layers,
  losses,
  metrics,
  regularizers,
  SparseTensor,
  safeEmbeddingLookupSparse,
} from './layers/index.js';
export * as lookup from './lookup/index.js';
export * from './ops/index.js';
export { Session } from './session/session.js';
export * as summary from './summary/index.js';
export { Tensor } from './tensor/tensor.js';
export * as train from './tf-train.js';
export * from './variables/index.js';
export { exportMetaGraph, importMetaGraph } from './variables/meta-graph.js';
