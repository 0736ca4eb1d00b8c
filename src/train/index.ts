/** `shoal/train`: training sessions, hooks, supervisors, evaluation. TensorFlow 1's names, in camelCase. */

export { CheckpointPlane, type PlaneOptions, planeOf } from './checkpoint-plane.js';
export { Coordinator, type CoordinatorOptions } from './coordinator.js';
export * from './evaluation/index.js';
export * from './hooks/index.js';
export { latestCheckpoint } from './latest-checkpoint.js';
export { ManagedSession } from './managed-session.js';
export { type MonitoredRunOptions, MonitoredSession, type StepContext } from './monitored-session.js';
export { type MonitoredTrainingOptions, MonitoredTrainingSession } from './monitored-training-session.js';
export type { TrainingPlace } from './open-training.js';
export { type QueueRunnerLike, startQueueRunners } from './queue-runners.js';
export { type RecoverableOptions, RecoverableSession } from './recoverable-session.js';
export { type RestoreOptions, type SaveOptions, Saver, type SaverOptions, type VarList } from './saver.js';
export type { SaverLike, TrainingRunner } from './saver-like.js';
export { Scaffold, type ScaffoldOptions } from './scaffold.js';
export { Server, type ServerOptions } from './server.js';
export { type ParkOptions, StepGate } from './step-gate.js';
export { SummaryWriters } from './summary-writers.js';
export { type ManagedPlace, Supervisor, type SupervisorOptions } from './supervisor.js';
export { type AssignmentMap, applyWarmStarts, initFromCheckpoint } from './warm-start.js';
export { writeGraph } from './write-graph.js';
