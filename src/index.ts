/** Shoal: distributed TensorFlow training in TypeScript, on machines that share no disk. */
export {
  type ErrorDetails,
  isShoalError,
  type ShoalCode,
  ShoalError,
  TensorFlowError,
} from './errors/errors.js';
export type { Attrs, AttrValue, FunctionRef } from './graph/attributes.js';
export { Graph } from './graph/graph.js';
export { Operation, Output, type OutputLike } from './graph/operation.js';
export type { DeviceFunction, DeviceScope } from './graph/scope.js';
export { defineJob, type JobDefinition, type JobOptions } from './job/define-job.js';
export { runInProcess } from './job/run-local.js';
export { listLiveHandles, liveHandles } from './native/handle.js';
export { preloadLibrary } from './native/library.js';
export type { Feeds } from './session/feeds.js';
export type { Fetches, FetchResult } from './session/fetches.js';
export { type Callable, type RunOptions, Session, type SessionOptions } from './session/session.js';
export type { Complex, DType } from './tensor/dtype.js';
export type { PartialShape, Shape } from './tensor/shape.js';
export { Tensor, type TensorLike, type TensorOptions } from './tensor/tensor.js';
export * as tf from './tf.js';
export { Variable } from './variables/variable.js';
