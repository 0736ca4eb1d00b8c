/// <reference types="node" preserve="true" />
/** `shoal/keras` and `tf.keras`: models of layers with `fit`, `evaluate` and `predict`, and the same models as jobs. */

export type { ProgressOutput } from '../../base/text/progress-line.js';
export type { ActivationName } from '../../tensorflow/layers/activations.js';
export * as callbacks from './callbacks.js';
export type {
  CompileOptions,
  Loss,
  LossFunction,
  LossName,
  MetricFunction,
  MetricName,
  OptimizerName,
} from './compile.js';
export type { Examples, Labels } from './data.js';
export type { FitOptions, History } from './fit.js';
export {
  Input,
  type InputOptions,
  Layer,
  type LayerBody,
  type LayerCall,
  type LayerParts,
  SymbolicTensor,
} from './layer.js';
export * as layers from './layers.js';
export {
  type BatchOptions,
  type FunctionalOptions,
  type LabeledInput,
  Model,
  type ModelJobOptions,
  type ModelOptions,
  type ModelOutputs,
  type ModelResults,
  type Predictions,
  Sequential,
} from './model.js';
