/** `shoal/train`: training sessions, hooks, supervisors, evaluation. TensorFlow 1's names, in camelCase. */

export {
  CheckpointService,
  checkpointServiceOf,
  type PlaneOptions,
} from './checkpoints/checkpoint-service.js';
export { latestCheckpoint } from './checkpoints/latest-checkpoint.js';
export {
  type RestoreOptions,
  type SaveOptions,
  Saver,
  type SaverOptions,
  type VarList,
} from './checkpoints/saver.js';
export { type AssignmentMap, applyWarmStarts, initFromCheckpoint } from './checkpoints/warm-start.js';
export { writeGraph } from './checkpoints/write-graph.js';
export type { TrainingPlace } from './core/open-training.js';
export { type QueueRunnerLike, startQueueRunners } from './core/queue-runners.js';
export { Scaffold, type ScaffoldOptions } from './core/scaffold.js';
export * from './evaluation/index.js';
export * from './hooks/index.js';
export { SummaryWriters } from './hooks/summary-writers.js';
export { Coordinator, type CoordinatorOptions } from './recovery/coordinator.js';
export { type RecoverableOptions, RecoverableSession } from './recovery/recoverable-session.js';
export { type ParkOptions, StepGate } from './recovery/step-gate.js';
export type { SaverLike, TrainingRunner } from './recovery/training-runner.js';
export { ManagedSession } from './sessions/managed-session.js';
export {
  type MonitoredRunOptions,
  MonitoredSession,
  type StepContext,
} from './sessions/monitored-session.js';
export {
  type MonitoredTrainingOptions,
  MonitoredTrainingSession,
} from './sessions/monitored-training-session.js';
export { Server, type ServerOptions } from './sessions/server.js';
export { type ManagedPlace, Supervisor, type SupervisorOptions } from './sessions/supervisor.js';
