/** Input: datasets in the graph, the classic queues, data shards and their ledger. */
export * as data from './data.js';
export type { Shard } from './dataset/record-ranges.js';
export { type SparseExamplesOptions, writeSparseExamples } from './dataset/sparse-examples.js';
export { LeaseClient } from './leases/lease-client.js';
export { RemoteDesk, serveLeases } from './leases/lease-requests.js';
export { type LeaseEndpoint, LeaseServer, type LeaseServerOptions } from './leases/lease-server.js';
export {
  isOver,
  type Lease,
  type LedgerEffect,
  type LedgerEvent,
  type LedgerPlan,
  type LedgerSnapshot,
  type LedgerState,
  newLedger,
  reduce,
  restoreLedger,
  snapshotOf,
} from './leases/ledger.js';
export {
  type LeaseSource,
  LedgerHost,
  type PlannedShards,
  type PlanShardsOptions,
  planShards,
} from './leases/ledger-host.js';
export { ShardBatches, ShardInput, ShardIterator, type ShardOptions } from './leases/shards.js';
export { isVoidStep, MarkKeeper, StepMarks } from './leases/step-marks.js';
export * as queues from './queues/queues.js';
