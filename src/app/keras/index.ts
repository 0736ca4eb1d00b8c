/// <reference types="node" preserve="true" />
/** `shoal/keras` and `tf.keras`: models of layers with `fit`, `evaluate` and `predict`, and the same models as jobs. */

export type { ProgressOutput } from '../../base/text/progress-line.js';
export type { ActivationName } from '../../tensorflow/layers/activations.js';
export type { FitJobOptions, LabeledInput, ModelJobOptions, ModelOutputs } from './job.js';
export {
  type AddWeightOptions,
  type Built,
  Input,
  type InputOptions,
  Layer,
  type LayerBody,
  type LayerCall,
  type LayerParts,
  type LayerSettings,
  type Mask,
  type SavedLayer,
  SymbolicTensor,
} from './layer.js';
export * as layers from './layers/index.js';
export {
  type BatchOptions,
  type FunctionalOptions,
  Model,
  type ModelEvaluateOptions,
  type ModelOptions,
  type ModelResults,
  type Predictions,
  Sequential,
} from './model.js';
export { type FromJsonOptions, type LayerConstructor, modelFromJson } from './saving/from-json.js';
export { type LoadModelOptions, loadModel } from './saving/load-model.js';
export * as callbacks from './training/callbacks.js';
export type { ClassWeight } from './training/class-weights.js';
export type {
  CompiledMetrics,
  CompileOptions,
  Loss,
  LossFunction,
  LossName,
  MetricFunction,
  MetricName,
  OptimizerName,
} from './training/compile.js';
export type { Examples, Labels } from './training/data.js';
export type { FitOptions, History } from './training/fit.js';
export type { FitSource, GivenBatch } from './training/sources.js';
