/** What the server is asked and what it answers, in no protocol's terms. */
import type { SignatureDef } from '../../base/proto/generated/model_pb.js';
import type { Tensor } from '../../tensorflow/tensor/tensor.js';
import type { Status } from './status.js';

export const DEFAULT_SIGNATURE = 'serving_default';

export interface ModelSpec {
  readonly name: string;
  /** A version number; default: the one of the label, else the highest that serves. */
  readonly version?: number | bigint | undefined;
  readonly label?: string | undefined;
  /** Default: `serving_default`. An empty name is the default too. */
  readonly signatureName?: string | undefined;
}

/** What answered a request. */
export interface ResolvedSpec {
  readonly name: string;
  readonly version: number;
  readonly signatureName: string;
}

export interface RequestLimits {
  /** Cancels the request: it leaves the queue, or its run is cancelled. */
  readonly signal?: AbortSignal | undefined;
  /** When the answer is of no more use, by `performance.now()`. */
  readonly deadline?: number | undefined;
}

/**
 * Tensors by the names of the signature. A sparse input `x` has the three tensors `x/indices`, `x/values` and
 * `x/dense_shape`, a ragged one `x/values` and `x/row_splits_0`, `x/row_splits_1`, …, from the outermost axis.
 */
export type NamedTensors = Readonly<Record<string, Tensor>>;

export interface PredictRequest {
  readonly spec: ModelSpec;
  readonly inputs: NamedTensors;
  /** The outputs to compute; default: all. */
  readonly outputFilter?: readonly string[] | undefined;
}

export interface PredictResponse {
  readonly spec: ResolvedSpec;
  readonly outputs: NamedTensors;
}

/** For classify and regress: serialized `tf.train.Example`s. */
export interface ExamplesRequest {
  readonly spec: ModelSpec;
  readonly examples: readonly Uint8Array[];
}

export interface ScoredClass {
  readonly label: string;
  readonly score: number;
}

export interface ClassifyResponse {
  readonly spec: ResolvedSpec;
  /** For each example its classes. */
  readonly classifications: readonly (readonly ScoredClass[])[];
}

export interface RegressResponse {
  readonly spec: ResolvedSpec;
  /** One value for each example. */
  readonly regressions: readonly number[];
}

export interface ModelMetadata {
  readonly name: string;
  readonly version: number;
  readonly signatures: Readonly<Record<string, SignatureDef>>;
}

/** TensorFlow Serving's states of a version. */
export type VersionState = 'START' | 'LOADING' | 'AVAILABLE' | 'UNLOADING' | 'END';

export interface VersionStatus {
  readonly version: number;
  readonly state: VersionState;
  /** OK, or why the version does not serve. */
  readonly code: Status | 'OK';
  readonly message: string;
}
