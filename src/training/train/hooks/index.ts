/** The hooks of a monitored session. */
export {
  CheckpointSaverHook,
  type CheckpointSaverListener,
  type CheckpointSaverOptions,
} from './checkpoint-saver.js';
export { chromeTrace, type TraceEvent } from './chrome-trace.js';
export { EarlyStoppingHook, type EarlyStoppingOptions, type EarlyStoppingResults } from './early-stopping.js';
export { FeedFnHook } from './feed-fn.js';
export { FinalOpsHook } from './final-ops.js';
export { GlobalStepWaiterHook } from './global-step-waiter.js';
export {
  LoggingTensorHook,
  type LoggingTensorOptions,
  type TensorsByTag,
  type Watched,
} from './logging-tensor.js';
export type { Mode } from './metric-comparison.js';
export { NanTensorHook } from './nan-tensor.js';
export { ProfilerHook, type ProfilerOptions } from './profiler.js';
export {
  type HookSetup,
  type MaybePromise,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';
export { ShardsHook, type ShardsHookOptions } from './shards.js';
export { StepCounterHook, type StepCounterOptions } from './step-counter.js';
export { StopAtStepHook, type StopAtStepOptions } from './stop-at-step.js';
export { SummarySaverHook, type SummarySaverOptions, type SummarySaverResults } from './summary-saver.js';
export type { SummaryWriters } from './summary-writers.js';
export { SyncReplicasHook, type SyncReplicasHookOptions } from './sync/sync-replicas.js';
export { type Elapsed, SecondOrStepTimer, type TimerOptions } from './timer.js';
