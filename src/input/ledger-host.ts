/**
 * The ledger at work on the chief: carries out what the reducer says. Whoever brings workers' messages calls
 * `next`, `done` and `begin`; membership calls `lost`; checkpoints call `cut`, recovery `restore`.
 */
import { ShoalError } from '../errors/errors.js';
import type { Compression } from '../formats/tfrecord/compression.js';
import { matchFiles } from './corrupt-records.js';
import {
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
import { type CorruptPlace, scanFile } from './record-scan.js';

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
  /** Completed steps have consumed the first `upTo` records of the lease's shard. */
  done(worker: string, lease: number, upTo: number): void | Promise<void>;
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
    shards.push(...scan.ranges);
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
}

type Answer = (lease: Lease | undefined) => void;

export class LedgerHost implements LeaseSource {
  #state: LedgerState;
  readonly #onEffect: (effect: LedgerEffect) => void;
  /** Workers whose question waits for its answer. */
  readonly #asking = new Map<string, Answer[]>();

  constructor(plan: LedgerPlan | LedgerState, options: LedgerHostOptions = {}) {
    this.#state = 'generation' in plan ? plan : newLedger(plan);
    this.#onEffect = options.onEffect ?? (() => {});
  }

  /** Goes on where a checkpoint was made. */
  static fromCut(cut: LedgerCut, options: LedgerHostOptions = {}): LedgerHost {
    return new LedgerHost(restoreLedger(cut), options);
  }

  get state(): LedgerState {
    return this.#state;
  }

  get isOver(): boolean {
    return isOver(this.#state);
  }

  begin(worker: string): void {
    this.lost(worker);
  }

  next(worker: string, holding?: readonly number[]): Promise<Lease | undefined> {
    return new Promise((resolve) => {
      const asking = this.#asking.get(worker) ?? [];
      this.#asking.set(worker, [...asking, resolve]);
      // A worker that asks again before it was answered has given up the first question.
      for (const answer of asking) answer(undefined);
      if (asking.length > 0) this.#asking.set(worker, [resolve]);
      this.#happen({ type: 'ask', worker, holding });
    });
  }

  done(worker: string, lease: number, upTo: number): void {
    this.#happen({ type: 'ack', worker, lease, upTo });
  }

  /** The worker is dead or has left. */
  lost(worker: string): void {
    this.#happen({ type: 'lost', worker });
    this.#answer(worker, undefined);
  }

  /** For the checkpoint: all workers must be parked, and their reports in. */
  cut(): LedgerCut {
    return cutOf(this.#state);
  }

  /** Goes back to a checkpoint. Who waited is sent away and has to begin anew. */
  restore(cut: LedgerCut): void {
    this.#state = restoreLedger(cut, this.#state.generation);
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
