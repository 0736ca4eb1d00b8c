/** `shoal/cluster`: tasks, membership, servers. Apart from the front door, since it brings HTTP with it. */
export { ClusterSession, type ClusterSessionOptions } from './cluster-session.js';
export { type ClusterDict, ClusterSpec, type JobSpec } from './cluster-spec.js';
export { type ClusterTask, type JoinOptions, joinCluster } from './cluster-task.js';
export { type ClusterConfig, resolveConfig, type TaskConfig } from './config.js';
export { greedyStrategy, type PsStrategy, replicaDeviceSetter, roundRobinStrategy } from './device-setter.js';
export { loadTls, type Security, tokenSecurity } from './security.js';
export { Server, type ServerOptions } from './server.js';
export { parseTaskId, type TaskId, taskId } from './task-id.js';
export { TensorFlowServer } from './tensorflow-server.js';
