/// <reference types="node" preserve="true" />
/**
 * `shoal/cluster`: the specification of a cluster, its configuration and security, device placement, and membership.
 * `Server.start` of `shoal/train` starts a task that computes.
 */
export type { AgentLimits } from './agent/agent-options.js';
export type { BlobAccess, BlobOperation, BlobPolicy, BlobRole } from './agent/blobs/blob-access.js';
export type { ClusterStatus } from './agent/wire.js';
export type { Identity as TaskIdentity, MapEntry as MemberEntry } from './membership/map.js';
export type { Member, MemberStatus, MembershipSettings } from './membership/types.js';
export type { ClusterServer } from './runtime/cluster-server.js';
export type { ClusterSession, ClusterSessionOptions } from './runtime/cluster-session.js';
export type { JoinClusterOptions } from './runtime/serve-until-over.js';
export {
  type ClusterDict,
  ClusterSpec,
  type ClusterSpecOptions,
  type JobSpec,
  type SpecTask,
} from './spec/cluster-spec.js';
export {
  type ClusterConfig,
  type ConfigInput,
  type EngineKind,
  type LocalConfig,
  resolveConfig,
  type Settings,
  type Sourced,
  type TaskConfig,
} from './spec/config.js';
export {
  greedyStrategy,
  type PsStrategy,
  type ReplicaDeviceSetterOptions,
  replicaDeviceSetter,
  roundRobinStrategy,
} from './spec/device-setter.js';
export { loadTls, type Security, tokenSecurity } from './spec/security.js';
export { parseTaskId, type TaskId, type TaskName, taskId } from './spec/task-id.js';
export type { TlsSecurity } from './spec/tls-files.js';
export { type ClusterTask, joinCluster } from './task/cluster-task.js';
export type { Clock, JoinOptions } from './task/join-options.js';
export type { TasksToAwait, WaitForOptions } from './task/wait-for.js';
