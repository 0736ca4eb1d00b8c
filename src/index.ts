/// <reference types="node" preserve="true" />
/** Shoal: distributed TensorFlow training in TypeScript, on machines that share no disk. */

export type { Consistency, ConsistencyOption } from './checkpoint/consistency.js';
export type { EngineKind } from './cluster/spec/config.js';
export {
  type ErrorDetails,
  isShoalError,
  type ShoalCode,
  ShoalError,
  TensorFlowError,
  type TfCodeName,
} from './errors/errors.js';
export { exitCodeOf } from './errors/exit-codes.js';
export type { Attrs, AttrValue, FunctionRef } from './graph/attributes.js';
export { Graph, type OpInput, type OpOptions } from './graph/graph.js';
export type { ImportOptions, ImportResult } from './graph/import-graph-def.js';
export { Operation, Output, type OutputLike } from './graph/operation.js';
export type { DeviceFunction, DeviceScope, OpRequest } from './graph/scope.js';
export type { JobCallbacks, SavedEvent, StepEvent } from './job/callbacks.js';
export {
  type CheckpointOptions,
  defineJob,
  type EvaluateOptions,
  type ExportOptions,
  type HookParts,
  type InputParts,
  type InputValues,
  type JobDefinition,
  type JobEarlyStopping,
  type JobModel,
  type JobOptions,
  type JobOutputs,
  type JobParams,
  type ModelInput,
  type ModelParts,
  type ParamValues,
  type Replica,
  type ServingParts,
  type SummariesOptions,
  type SyncOptions,
  type TrainOptions,
} from './job/define-job.js';
export type { JobResult, LoopResult } from './job/job-result.js';
export { type RunInProcessOptions, runInProcess } from './job/run-local.js';
export { type HandleKind, listLiveHandles, liveHandles } from './native/handle.js';
export { preloadLibrary } from './native/library.js';
export type { Operand } from './ops/build.js';
export type { Feeds } from './session/feeds.js';
export type { Fetch, Fetches, FetchResult } from './session/fetches.js';
export type { Runner } from './session/runner.js';
export { type Callable, type RunOptions, Session, type SessionOptions } from './session/session.js';
export type { Complex, DataOf, DType, ElementOf } from './tensor/dtype.js';
export type { NestedArray, NestedValue, Scalar } from './tensor/literal.js';
export type { PartialShape, Shape } from './tensor/shape.js';
export { Tensor, type TensorLike, type TensorOptions } from './tensor/tensor.js';
export * as tf from './tf.js';
export { Variable } from './variables/variable.js';
