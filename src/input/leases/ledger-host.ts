/**
 * The ledger at work on the chief: carries out what the reducer says. Whoever brings workers' messages calls
 * `next`, `done` and `begin`; membership calls `lost`; checkpoints call `cut`, recovery `restore`.
 */
import { stat } from 'node:fs/promises';
import { ShoalError } from '../../errors/errors.js';
import type { Compression } from '../../formats/tfrecord/compression.js';
import type { Shard } from '../dataset/record-ranges.js';
import { matchFiles } from '../files/corrupt-records.js';
import { type CorruptPlace, scanFile } from '../files/record-scan.js';
import {
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
  reduce,
  restoreLedger,
  snapshotOf,
} from './ledger.js';

/** Where a worker gets leases: the chief's ledger, near or far. */
export interface LeaseSource {
  /** The worker begins anew: what it held and did not consume is given back. */
  begin(worker: string): void | Promise<void>;
  /**
   * The next lease; undefined when all is over. May take as long as other workers hold what is left. `holding` are
   * the leases that the worker has and whose end it has not reported: any other is taken back, so that the question
   * may be repeated when an answer was lost.
   */
  next(worker: string, holding: readonly number[]): Promise<Lease | undefined>;
  /** A completed step has consumed the records of a lease up to a place; from another one on, or from its beginning. */
  done(worker: string, lease: number, upTo: number, from?: number): void | Promise<void>;
}

export interface PlanShardsOptions {
  /** The most records in a shard; a multiple of the batch size spares small batches. */
  readonly recordsPerShard?: number | undefined;
  readonly compression?: Compression | undefined;
  /**
   * Whether all data is read and checked first, and corrupt records left out. Without it only lengths are looked
   * at, and a record whose data is corrupt stops the step that meets it.
   */
  readonly verify?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface PlannedShards {
  readonly shards: readonly Shard[];
  readonly records: number;
  readonly corrupt: readonly CorruptPlace[];
}

const DEFAULT_RECORDS = 10_000;

/** Cuts TFRecord files into shards. A compressed file is one shard: it can't be entered in its middle. */
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
      hint: 'With verify: true corrupt records are left out.',
    });
  }
  return { shards, corrupt, records: shards.reduce((sum, { records }) => sum + records, 0) };
}

export interface LedgerHostOptions {
  /** Is told what happens, for logs and metrics. */
  readonly onEffect?: ((effect: LedgerEffect) => void) | undefined;
  /** That of the first leases, where an earlier ledger may have given out some too. */
  readonly generation?: number | undefined;
}

type Answer = (lease: Lease | undefined) => void;

export class LedgerHost implements LeaseSource {
  #state: LedgerState;
  readonly #onEffect: (effect: LedgerEffect) => void;
  /** Workers whose question waits for its answer. */
  readonly #asking = new Map<string, Answer[]>();
  #finished = false;

  constructor(plan: LedgerPlan | LedgerState, options: LedgerHostOptions = {}) {
    this.#state = 'generation' in plan ? plan : newLedger(plan, options.generation);
    this.#onEffect = options.onEffect ?? (() => {});
  }

  /** Goes on where a checkpoint was made. */
  static fromCut(cut: LedgerSnapshot, options: LedgerHostOptions = {}): LedgerHost {
    return new LedgerHost(restoreLedger(cut), options);
  }

  get state(): LedgerState {
    return this.#state;
  }

  get isOver(): boolean {
    return isOver(this.#state);
  }

  /** Whether nobody is given anything any more. */
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
      // A worker that asks again before it was answered has given up the first question.
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

  /** No lease that was given out has a higher id, and all others will. */
  get lastLease(): number {
    return lastLease(this.#state);
  }

  /** The worker is dead or has left. */
  lost(worker: string): void {
    this.#happen({ type: 'lost', worker });
    this.#answer(worker, undefined);
  }

  /** For the checkpoint: all workers must be parked, and their reports in. */
  cut(): LedgerSnapshot {
    return snapshotOf(this.#state);
  }

  /** Goes back to a checkpoint. Who waited is sent away and has to begin anew. */
  restore(cut: LedgerSnapshot): void {
    this.#replace(restoreLedger(cut, generationOf(this.#state)));
  }

  /** Goes back to the beginning of its plan. */
  reset(): void {
    this.#replace(newLedger(this.#state.plan, generationOf(this.#state) + 1));
  }

  /** Tells all who wait, now and later, that there is nothing more for them. */
  finish(): void {
    this.#finished = true;
    for (const worker of [...this.#asking.keys()]) this.#answer(worker, undefined);
  }

  #replace(state: LedgerState): void {
    this.#state = state;
    for (const worker of [...this.#asking.keys()]) this.#answer(worker, undefined);
  }

  #happen(event: LedgerEvent): void {
    const { state, effects } = reduce(this.#state, event);
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
