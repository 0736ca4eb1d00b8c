/** Input: datasets in the graph, the classic queues, data shards and their ledger. */
export * as data from './data.js';
export { type Desk, LeaseDesk, type LeaseDeskOptions } from './lease-desk.js';
export { RemoteDesk, serveLeases } from './lease-requests.js';
export {
  cutOf,
  isOver,
  type Lease,
  type LedgerCut,
  type LedgerEffect,
  type LedgerEvent,
  type LedgerPlan,
  type LedgerState,
  newLedger,
  reduce,
  restoreLedger,
  type Shard,
} from './ledger.js';
export {
  type LeaseSource,
  LedgerHost,
  type PlannedShards,
  type PlanShardsOptions,
  planShards,
} from './ledger-host.js';
export * as queues from './queues.js';
export { ShardBatches, ShardInput, ShardIterator, type ShardOptions } from './shards.js';
export { type SparseExamplesOptions, writeSparseExamples } from './sparse-examples.js';
export { isVoidStep, MarkKeeper, StepMarks } from './step-marks.js';
export { Tenant } from './tenant.js';
