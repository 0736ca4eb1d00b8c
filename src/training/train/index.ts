/// <reference types="node" preserve="true" />
/** `shoal/train`: servers, training sessions, hooks, supervisors, evaluation. TensorFlow 1's names, in camelCase. */
export type { WhenBusy } from '../../distributed/checkpoint/checkpoints.js';
export type { GatherMode } from '../../distributed/checkpoint/directory/gather.js';
export type { RestoreReport } from '../../distributed/checkpoint/protocol/restore.js';
export type { Hold, SaveProgress } from '../../distributed/checkpoint/protocol/save.js';
export { type AssignmentMap, initFromCheckpoint } from '../../tensorflow/variables/warm-start.js';
export { latestCheckpoint } from './checkpoints/latest-checkpoint.js';
export {
  type RestoreOptions,
  type SaveOptions,
  Saver,
  type SaverOptions,
  type VarList,
} from './checkpoints/saver.js';
export { applyWarmStarts } from './checkpoints/warm-start.js';
export { writeGraph } from './checkpoints/write-graph.js';
export type { PlaceOptions, TrainingPlace } from './core/open-training.js';
export {
  type QueueRunnerLike,
  type StartQueueRunnersOptions,
  startQueueRunners,
} from './core/queue-runners.js';
export { Scaffold, type ScaffoldOptions } from './core/scaffold.js';
export * from './evaluation/index.js';
export * from './hooks/index.js';
export type { SummaryOp } from './hooks/summary-saver.js';
export {
  Coordinator,
  type CoordinatorOptions,
  type JoinTasksOptions,
  type LoopOptions,
} from './recovery/coordinator.js';
export type { RecoveryMode } from './recovery/recovery-mode.js';
export type { Recovery, RecoveryEvent, RestoredCheckpoint } from './recovery/recovery-report.js';
export type { ManagedSession } from './sessions/managed-session.js';
export type { MonitoredRunOptions, MonitoredSession, StepContext } from './sessions/monitored-session.js';
export {
  type MonitoredTrainingOptions,
  MonitoredTrainingSession,
} from './sessions/monitored-training-session.js';
export {
  type ManagedPlace,
  type ManagedSessionOptions,
  Supervisor,
  type SupervisorOptions,
} from './sessions/supervisor.js';
export { Server, type ServerOptions } from './task/server.js';
export type { SaverLike, TrainingRunner } from './task/training-runner.js';
