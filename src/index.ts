/// <reference types="node" preserve="true" />
/** Shoal: distributed TensorFlow training in TypeScript, on machines that share no disk. */

export type { JobCallbacks, SavedEvent, StepEvent } from './app/job/definition/callbacks.js';
export {
  type CheckpointOptions,
  defineJob,
  type EvaluateOptions,
  type ExportOptions,
  type HookParts,
  type InputParts,
  type InputValues,
  type JobDefinition,
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
} from './app/job/definition/define-job.js';
export type { JobResult, LoopResult } from './app/job/definition/job-result.js';
export type {
  JobEarlyStopping,
  MetricEarlyStopping,
  OutputEarlyStopping,
  ReduceLearningRate,
} from './app/job/definition/metric-options.js';
export type { PublishingOptions } from './app/job/definition/publishing-options.js';
export { type RunInProcessOptions, runInProcess } from './app/job/running/run-local.js';
export * as tf from './app/tf/index.js';
export {
  type ErrorDetails,
  isShoalError,
  type ShoalCode,
  ShoalError,
  TensorFlowError,
  type TfCodeName,
} from './base/errors/errors.js';
export { exitCodeOf } from './base/errors/exit-codes.js';
export type {
  JobEvent,
  JobEventData,
  JobEventFields,
  JobEventHeader,
  JobEventName,
  RestoredInEvent,
  TrialReport,
} from './base/text/job-event.js';
export type { Consistency } from './distributed/checkpoint/format/consistency.js';
export type { EngineKind } from './distributed/cluster/spec/config.js';
export type { Attrs, AttrValue, FunctionRef } from './tensorflow/graph/attributes.js';
export type { DeviceFunction, DeviceScope, OpRequest } from './tensorflow/graph/device.js';
export { Graph, type OpInput, type OpOptions } from './tensorflow/graph/graph.js';
export type { ImportOptions, ImportResult } from './tensorflow/graph/import-graph-def.js';
export { Operation, Output, type OutputLike, type OwningGraph } from './tensorflow/graph/operation.js';
export { type HandleKind, listLiveHandles, liveHandles } from './tensorflow/native/handle.js';
export { preloadLibrary } from './tensorflow/native/library/library.js';
export type { Operand } from './tensorflow/ops/build.js';
export type { Feeds } from './tensorflow/session/feeds.js';
export type { Fetch, Fetches, FetchResult } from './tensorflow/session/fetches.js';
export type { Runner, RunOptions } from './tensorflow/session/runner.js';
export { type Callable, Session, type SessionOptions } from './tensorflow/session/session.js';
export type { Complex, DataOf, DType, ElementOf } from './tensorflow/tensor/dtype.js';
export type { NestedArray, NestedValue, Scalar } from './tensorflow/tensor/literal.js';
export type { PartialShape, Shape } from './tensorflow/tensor/shape.js';
export { Tensor, type TensorLike, type TensorOptions } from './tensorflow/tensor/tensor.js';
export { Variable } from './tensorflow/variables/variable.js';
