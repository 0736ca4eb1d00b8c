/** `shoal/cluster`: tasks, membership, servers. Apart from the front door, since it brings HTTP with it. */
export { ClusterSession, type ClusterSessionOptions } from './runtime/cluster-session.js';
export { Server, type ServerOptions } from './runtime/server.js';
export { TensorFlowServer } from './runtime/tensorflow-server.js';
export { type ClusterDict, ClusterSpec, type JobSpec } from './spec/cluster-spec.js';
export { type ClusterConfig, resolveConfig, type TaskConfig } from './spec/config.js';
export {
  greedyStrategy,
  type PsStrategy,
  replicaDeviceSetter,
  roundRobinStrategy,
} from './spec/device-setter.js';
export { loadTls, type Security, tokenSecurity } from './spec/security.js';
export { parseTaskId, type TaskId, taskId } from './spec/task-id.js';
export { type ClusterTask, type JoinOptions, joinCluster } from './task/cluster-task.js';
