/// <reference types="node" preserve="true" />
/** `shoal/serving`: serves SavedModels to clients of TensorFlow Serving, over REST and gRPC. */
export type { BatchingConfig, SslConfig } from './config/config-files.js';
export type { VersionPolicy } from './config/model-config.js';
export { type PublishOptions, publish } from './publish/publish.js';
export { rollBack } from './publish/roll-back.js';
export type { ChangeResult, PublishProgress, TargetResult, TargetsOptions } from './publish/targets.js';
export type { Outcome } from './publish/two-phase.js';
export type { VersionState, VersionStatus } from './requests.js';
export {
  type CloseOptions,
  type ServedModelOptions,
  type ServeOptions,
  type Serving,
  serve,
} from './serve.js';
