/**
 * Runs the ledger on the chief: carries out the effects of the reducer. The lease server calls `next`, `done` and
 * `begin` for workers; membership calls `lost`, checkpoints call `snapshot`, recovery calls `restore`.
 */
import { stat } from 'node:fs/promises';
import { ShoalError } from '../../../base/errors/errors.js';
import type { Compression } from '../../../tensorflow/formats/tfrecord/compression.js';
import type { Shard } from '../dataset/record-ranges.js';
import { matchFiles } from '../files/corrupt-records.js';
import { type CorruptPlace, scanFile } from '../files/record-scan.js';
import {
  type Fence,
  generationOf,
  isOver,
  type Lease,
  type LedgerEffect,
  type LedgerEvent,
  type LedgerPlan,
  type LedgerSnapshot,
  type LedgerState,
  lastLease,
  newLedger,
  reduceLedger,
  restoreLedger,
  snapshotOf,
} from './ledger.js';

/** Where a worker gets leases: the chief's ledger, local or remote. */
export interface LeaseSource {
  /** The worker restarts its input: the unconsumed rest of its leases is given back. */
  begin(worker: string): void | Promise<void>;
  /**
   * The next lease; undefined at the end of the input. May wait as long as other workers hold the remaining leases.
   * `holding` lists the worker's unfinished leases: any other is taken back, so a request can be repeated after a lost
   * answer.
   */
  next(worker: string, holding: readonly number[]): Promise<Lease | undefined>;
  /** A completed step has consumed the records [from, upTo) of a lease; default from: the beginning of the lease. */
  done(worker: string, lease: number, upTo: number, from?: number): void | Promise<void>;
}

export interface PlanShardsOptions {
  /** The maximum number of records per shard; a multiple of the batch size avoids small batches. */
  readonly recordsPerShard?: number;
  readonly compression?: Compression;
  /**
   * Whether to read and check all data first and skip corrupt records; default: false, only lengths are checked, and a
   * record with corrupt data fails the step that reads it.
   */
  readonly verify?: boolean;
  readonly signal?: AbortSignal;
}

export interface PlannedShards {
  readonly shards: readonly Shard[];
  readonly records: number;
  readonly corrupt: readonly CorruptPlace[];
}

const DEFAULT_RECORDS = 10_000;

/** Splits TFRecord files into shards. A compressed file is one shard: it can only be read from the beginning. */
export async function planShards(
  source: string | readonly string[],
  options: PlanShardsOptions = {},
): Promise<PlannedShards> {
  const { recordsPerShard = DEFAULT_RECORDS, verify = false, compression = 'none', signal } = options;
  const shards: Shard[] = [];
  const corrupt: CorruptPlace[] = [];
  for (const file of await matchFiles(source)) {
    const most = compression === 'none' ? { rangeRecords: recordsPerShard } : {};
    const scan = await scanFile(file, { compression, verify, signal, ...most });
    const { size } = await stat(file);
    shards.push(...scan.ranges.map((range) => ({ ...range, size })));
    corrupt.push(...scan.corrupt);
  }
  const [first] = corrupt;
  if (first && !verify) {
    throw new ShoalError('SHOAL_CORRUPT', `${first.file}: ${first.reason}, at byte ${first.offset}`, {
      hint: 'With verify: true corrupt records are skipped.',
    });
  }
  return { shards, corrupt, records: shards.reduce((sum, { records }) => sum + records, 0) };
}

export interface LedgerHostOptions {
  /** Called for each effect, for logs and metrics. */
  readonly onEffect?: (effect: LedgerEffect) => void;
  /** The incarnation of the chief; default: 0, for a ledger that no other one precedes. */
  readonly term?: number;
}

type Answer = (lease: Lease | undefined) => void;

export class LedgerHost implements LeaseSource {
  #state: LedgerState;
  readonly #onEffect: (effect: LedgerEffect) => void;
  /** Pending requests of workers. */
  readonly #asking = new Map<string, Answer[]>();
  #finished = false;

  constructor(plan: LedgerPlan | LedgerState, options: LedgerHostOptions = {}) {
    this.#state = 'generation' in plan ? plan : newLedger(plan, options.term);
    this.#onEffect = options.onEffect ?? (() => {});
  }

  /** Continues from a checkpoint. */
  static fromSnapshot(snapshot: LedgerSnapshot, options: LedgerHostOptions = {}): LedgerHost {
    return new LedgerHost(restoreLedger(snapshot, snapshot.generation, options.term), options);
  }

  get state(): LedgerState {
    return this.#state;
  }

  get isOver(): boolean {
    return isOver(this.#state);
  }

  /** Whether no more leases are granted. */
  get isFinished(): boolean {
    return this.#finished;
  }

  begin(worker: string): void {
    this.lost(worker);
  }

  next(worker: string, holding?: readonly number[]): Promise<Lease | undefined> {
    if (this.#finished) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const asking = this.#asking.get(worker) ?? [];
      this.#asking.set(worker, [...asking, resolve]);
      // A repeated request of a worker replaces its first one.
      for (const answer of asking) answer(undefined);
      if (asking.length > 0) this.#asking.set(worker, [resolve]);
      this.#happen({ type: 'ask', worker, holding });
    });
  }

  done(worker: string, lease: number, upTo: number, from?: number): void {
    this.#happen({ type: 'ack', worker, lease, upTo, from });
  }

  /** The leases that a worker holds. */
  held(worker: string): readonly number[] {
    return this.#state.leases.filter((lease) => lease.worker === worker).map(({ id }) => id);
  }

  /** Admits no lease that was granted so far, and all later ones. */
  get fence(): Fence {
    return { term: this.#state.term, lease: lastLease(this.#state) };
  }

  /** The worker is dead or has left. */
  lost(worker: string): void {
    this.#happen({ type: 'lost', worker });
    this.#answer(worker, undefined);
  }

  /** For a checkpoint: all workers must be paused, and their reports must have arrived. */
  snapshot(): LedgerSnapshot {
    return snapshotOf(this.#state);
  }

  /** Returns to a checkpoint. Waiting workers are answered and must begin again. */
  restore(snapshot: LedgerSnapshot): void {
    this.#replace(restoreLedger(snapshot, generationOf(this.#state), this.#state.term));
  }

  /** Returns to the beginning of the plan. */
  reset(): void {
    this.#replace(newLedger(this.#state.plan, this.#state.term, generationOf(this.#state) + 1));
  }

  /** Answers all pending and future requests with the end of the input. */
  finish(): void {
    this.#finished = true;
    for (const worker of [...this.#asking.keys()]) this.#answer(worker, undefined);
  }

  #replace(state: LedgerState): void {
    this.#state = state;
    for (const worker of [...this.#asking.keys()]) this.#answer(worker, undefined);
  }

  #happen(event: LedgerEvent): void {
    const { state, effects } = reduceLedger(this.#state, event);
    this.#state = state;
    for (const effect of effects) {
      this.#onEffect(effect);
      if (effect.type === 'grant') this.#answer(effect.worker, effect.lease);
      else if (effect.type === 'end') this.#answer(effect.worker, undefined);
    }
  }

  #answer(worker: string, lease: Lease | undefined): void {
    const asking = this.#asking.get(worker) ?? [];
    this.#asking.delete(worker);
    for (const answer of asking) answer(lease);
  }
}
