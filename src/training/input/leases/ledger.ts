/**
 * The chief's ledger of data shards, as a pure reducer: `reduce(state, event)` gives the next state and the effects
 * to carry out. It tracks every record: not leased, leased to a worker, or consumed.
 *
 * A shard is a range of a file. A worker reads it in one fixed order (shuffled by the seed in the lease), so a record
 * is identified by its position in that order. A lease covers the positions [from, to). A worker reports the positions
 * consumed by completed steps, not records read ahead. When it dies, the rest of its leases is reassigned; with several
 * steps in flight the rest may be more than one range.
 *
 * Epochs overlap: while the last shards of one are still leased, those of the next are granted. Each epoch contains
 * every record exactly once.
 */

import * as v from 'valibot';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import type { Shard } from '../dataset/record-ranges.js';
import { type FileRange, sizeOfRanges, without, withRange } from '../files/ranges.js';
import { shardSeed, shuffledOrder } from './shard-order.js';

/** A shard, or the rest of one, leased to a worker. */
export interface Lease {
  /** Unique within a term, and increasing. */
  readonly id: number;
  /** The incarnation of the chief that granted it. */
  readonly term: number;
  readonly worker: string;
  readonly epoch: number;
  /** The number of the shard. */
  readonly shard: number;
  readonly file: string;
  readonly offset: number;
  /** The records of the complete shard. */
  readonly records: number;
  readonly bytes?: number;
  readonly size?: number;
  /** The lease covers the positions [from, to) in the shard's order. */
  readonly from: number;
  readonly to: number;
  /** The seed of the shard's order in this epoch. */
  readonly seed: number;
}

/** Admits leases of one term above an id. Ids of different chiefs are not in order. */
export interface Fence {
  readonly term: number;
  readonly lease: number;
}

/** Records of a shard to be leased (again). */
interface Part extends FileRange {
  readonly epoch: number;
  readonly shard: number;
}

interface OpenLease extends Part {
  readonly id: number;
  readonly worker: string;
  /** The consumed positions. */
  readonly consumed: readonly FileRange[];
}

export interface LedgerPlan {
  readonly shards: readonly Shard[];
  /** null: forever. */
  readonly epochs: number | null;
  /** Seed of the order of shards and of the records in them. */
  readonly seed: number;
  /** Whether each epoch shuffles the shards. */
  readonly shuffleShards: boolean;
}

export interface LedgerState {
  readonly plan: LedgerPlan;
  /** The incarnation of the chief: leases of another one are void. */
  readonly term: number;
  /** Counts restores; leases of earlier generations are void. */
  readonly generation: number;
  /** The epoch that is being leased. */
  readonly epoch: number;
  /** Its shards in order, and the index of the next one. */
  readonly order: readonly number[];
  readonly next: number;
  /** Returned parts, to be leased before anything else. */
  readonly returned: readonly Part[];
  readonly leases: readonly OpenLease[];
  readonly granted: number;
  /** Workers with a pending request. */
  readonly waiting: readonly string[];
  /** The number of unconsumed records of each unfinished epoch. */
  readonly open: readonly { readonly epoch: number; readonly records: number }[];
  /** Records consumed, over all epochs. */
  readonly consumed: number;
}

export type LedgerEvent =
  /** A worker requests a lease. Leases that it does not list were lost with an answer, and are taken back. */
  | { readonly type: 'ask'; readonly worker: string; readonly holding?: readonly number[] | undefined }
  /** Completed steps of a worker have consumed [from, upTo) of a lease; default from: its beginning. */
  | {
      readonly type: 'ack';
      readonly worker: string;
      readonly lease: number;
      readonly from?: number;
      readonly upTo: number;
    }
  /** A worker is dead or has left: its leases are reassigned. */
  | { readonly type: 'lost'; readonly worker: string };

export type LedgerEffect =
  | { readonly type: 'grant'; readonly worker: string; readonly lease: Lease }
  /** No lease is available now: the worker's request stays pending. */
  | { readonly type: 'wait'; readonly worker: string }
  /** There are no more leases. */
  | { readonly type: 'end'; readonly worker: string }
  | { readonly type: 'refuse'; readonly worker: string; readonly lease: number; readonly why: string }
  | { readonly type: 'epoch-over'; readonly epoch: number }
  | { readonly type: 'all-over' };

export interface LedgerStep {
  readonly state: LedgerState;
  readonly effects: readonly LedgerEffect[];
}

/** Lease ids of one generation are below those of the next; all are safe integers. */
export const IDS_PER_GENERATION = 2 ** 20;

/** An upper bound of the ids of all granted leases. */
export const lastLease = ({ generation, granted }: LedgerState): number =>
  generation * IDS_PER_GENERATION + granted;

/** The generation of the last lease: that of the ledger, unless it granted very many. */
export const generationOf = (state: LedgerState): number => Math.floor(lastLease(state) / IDS_PER_GENERATION);

/** @param generation must be above that of any earlier ledger of this term whose leases workers may hold. */
export function newLedger(plan: LedgerPlan, term = 0, generation = 0): LedgerState {
  const { shards, epochs } = plan;
  if (shards.length === 0 || shards.some(({ records }) => !Number.isSafeInteger(records) || records < 1))
    throw invalid('A ledger needs shards, each with at least one record');
  if (epochs !== null && (!Number.isSafeInteger(epochs) || epochs < 1))
    throw invalid(
      `The number of epochs must be an integer of at least 1, or null for forever; got ${epochs}`,
    );
  return beginEpoch(
    {
      plan,
      term,
      generation,
      epoch: 0,
      order: [],
      next: 0,
      returned: [],
      leases: [],
      granted: 0,
      waiting: [],
      open: [],
      consumed: 0,
    },
    0,
  );
}

function beginEpoch(state: LedgerState, epoch: number): LedgerState {
  const records = state.plan.shards.reduce((sum, shard) => sum + shard.records, 0);
  return {
    ...state,
    epoch,
    order: shuffledOrder(state.plan, epoch),
    next: 0,
    open: [...state.open, { epoch, records }],
  };
}

/** Whether every record of every epoch has been consumed. */
export const isOver = (state: LedgerState): boolean => state.open.length === 0 && !hasMore(state);

/** Whether there are shards that were never leased. */
const hasMore = ({ plan, epoch, next }: LedgerState): boolean =>
  next < plan.shards.length || plan.epochs === null || epoch + 1 < plan.epochs;

export function reduceLedger(state: LedgerState, event: LedgerEvent): LedgerStep {
  switch (event.type) {
    case 'ask':
      return ask(event.holding ? reclaim(state, event.worker, event.holding) : state, event.worker);
    case 'ack':
      return serve(ack(state, event));
    case 'lost':
      return serve(lost(state, event.worker));
  }
}

function ask(state: LedgerState, worker: string): LedgerStep {
  if (state.waiting.includes(worker)) return { state, effects: [] };
  const step = serve({ state: { ...state, waiting: [...state.waiting, worker] }, effects: [] });
  if (!step.state.waiting.includes(worker)) return step;
  return { state: step.state, effects: [...step.effects, { type: 'wait', worker }] };
}

function ack(state: LedgerState, event: LedgerEvent & { readonly type: 'ack' }): LedgerStep {
  const { worker, lease, upTo } = event;
  const refuse = (why: string): LedgerStep => ({
    state,
    effects: [{ type: 'refuse', worker, lease, why }],
  });
  const held = state.leases.find(({ id }) => id === lease);
  if (!held) {
    const old = Math.floor(lease / IDS_PER_GENERATION) < state.generation;
    return refuse(old ? 'the lease is from before a restore' : 'no such lease is open');
  }
  if (held.worker !== worker) return refuse(`the lease belongs to ${held.worker}`);
  const { from = held.from } = event;
  const isInside = held.from <= from && from <= upTo && upTo <= held.to;
  if (!Number.isSafeInteger(from) || !Number.isSafeInteger(upTo) || !isInside)
    return refuse(`it covers the records [${held.from}, ${held.to}), not [${from}, ${upTo})`);
  const consumed = withRange(held.consumed, { from, to: upTo });
  const grown = sizeOfRanges(consumed) - sizeOfRanges(held.consumed);
  // Reports may be reordered or duplicated.
  if (grown === 0) return { state, effects: [] };
  const leases =
    sizeOfRanges(consumed) === held.to - held.from
      ? state.leases.filter(({ id }) => id !== lease)
      : state.leases.map((one) => (one.id === lease ? { ...one, consumed } : one));
  return consume({ ...state, leases }, held.epoch, grown);
}

/** Subtracts records from their epoch's count. */
function consume(state: LedgerState, epoch: number, records: number): LedgerStep {
  const left = state.open.map((one) =>
    one.epoch === epoch ? { ...one, records: one.records - records } : one,
  );
  const over = left.filter((one) => one.records === 0);
  const next = {
    ...state,
    open: left.filter((one) => one.records > 0),
    consumed: state.consumed + records,
  };
  const effects: LedgerEffect[] = over.map((one) => ({ type: 'epoch-over', epoch: one.epoch }));
  if (over.length > 0 && isOver(next)) effects.push({ type: 'all-over' });
  return { state: next, effects };
}

function lost(before: LedgerState, worker: string): LedgerStep {
  const state = reclaim(before, worker, []);
  return { state: { ...state, waiting: state.waiting.filter((name) => name !== worker) }, effects: [] };
}

/** Takes back a worker's leases except those in `keep`. */
function reclaim(state: LedgerState, worker: string, keep: readonly number[]): LedgerState {
  const isTaken = (lease: OpenLease) => lease.worker === worker && !keep.includes(lease.id);
  const taken = state.leases.filter(isTaken);
  if (taken.length === 0) return state;
  return {
    ...state,
    leases: state.leases.filter((lease) => !isTaken(lease)),
    returned: [...state.returned, ...taken.flatMap(remainders)],
  };
}

const remainders = (lease: OpenLease): Part[] =>
  without(lease, lease.consumed).map(({ from, to }) => ({
    epoch: lease.epoch,
    shard: lease.shard,
    from,
    to,
  }));

/** Grants leases to waiting workers, or reports the end to them. */
function serve({ state: before, effects: made }: LedgerStep): LedgerStep {
  let state = before;
  const effects = [...made];
  while (state.waiting.length > 0) {
    const [worker, ...waiting] = state.waiting as [string, ...string[]];
    const part = takePart(state);
    if (!part) break;
    const open: OpenLease = { ...part.taken, id: lastLease(state) + 1, worker, consumed: [] };
    state = { ...part.state, waiting, leases: [...part.state.leases, open], granted: state.granted + 1 };
    effects.push({ type: 'grant', worker, lease: leaseOf(state, open) });
  }
  if (isOver(state)) {
    effects.push(...state.waiting.map((worker) => ({ type: 'end', worker }) as const));
    state = { ...state, waiting: [] };
  }
  return { state, effects };
}

/** The next part to lease: a returned one, else the next shard of the epoch, else of the next epoch. */
function takePart(state: LedgerState): { readonly state: LedgerState; readonly taken: Part } | undefined {
  const [first, ...returned] = state.returned;
  if (first) return { state: { ...state, returned }, taken: first };
  if (!hasMore(state)) return undefined;
  const ready = state.next < state.order.length ? state : beginEpoch(state, state.epoch + 1);
  const shard = ready.order[ready.next] as number;
  const taken = { epoch: ready.epoch, shard, from: 0, to: (ready.plan.shards[shard] as Shard).records };
  return { state: { ...ready, next: ready.next + 1 }, taken };
}

function leaseOf({ plan, term }: LedgerState, { id, worker, epoch, shard, from, to }: OpenLease): Lease {
  const seed = shardSeed(plan.seed, epoch, shard);
  return { id, term, worker, epoch, shard, ...(plan.shards[shard] as Shard), from, to, seed };
}

const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

const SnapshotSchema = v.object({
  version: v.literal(1),
  plan: v.object({
    shards: v.pipe(
      v.array(
        v.object({
          file: v.string(),
          offset: Count,
          records: v.pipe(Count, v.minValue(1)),
          bytes: v.optional(Count),
          size: v.optional(Count),
        }),
      ),
      v.minLength(1),
    ),
    epochs: v.nullable(v.pipe(Count, v.minValue(1))),
    seed: v.number(),
    shuffleShards: v.boolean(),
  }),
  generation: Count,
  epoch: Count,
  next: Count,
  returned: v.array(v.object({ epoch: Count, shard: Count, from: Count, to: Count })),
  consumed: Count,
});

/** The ledger in a checkpoint, as JSON. */
export interface LedgerSnapshot {
  readonly version: 1;
  readonly plan: LedgerPlan;
  readonly generation: number;
  readonly epoch: number;
  readonly next: number;
  readonly returned: readonly Part[];
  readonly consumed: number;
}

/** Parses the ledger of a checkpoint; undefined if it has none. */
export function parseLedgerSnapshot(value: unknown): LedgerSnapshot | undefined {
  if (value === null || value === undefined) return undefined;
  const { success, output, issues } = v.safeParse(SnapshotSchema, value);
  const { plan, next, returned } = (success ? output : undefined) ?? {};
  const isInShard = (part: Part) =>
    part.to <= ((plan?.shards[part.shard] as Shard | undefined)?.records ?? -1);
  if (!success || !returned?.every(isInShard) || (next as number) > (plan?.shards.length as number)) {
    const why = issues
      ? `${v.getDotPath(issues[0])}: ${issues[0].message}`
      : 'its parts do not match its shards';
    throw new ShoalError('SHOAL_CORRUPT', `The ledger in the checkpoint cannot be read: ${why}`);
  }
  return output;
}

/** A snapshot of the state. Open leases are saved as their unconsumed parts. */
export function snapshotOf(state: LedgerState): LedgerSnapshot {
  const { plan, epoch, next, consumed } = state;
  const returned = [...state.returned, ...state.leases.flatMap(remainders)];
  return { version: 1, plan, generation: generationOf(state), epoch, next, returned, consumed };
}

/**
 * Restores the ledger from a snapshot. All leases granted so far are void. `generation` is the highest one in use, if
 * several restores use the same snapshot.
 */
export function restoreLedger(
  snapshot: LedgerSnapshot,
  generation = snapshot.generation,
  term = 0,
): LedgerState {
  const { plan, epoch, next, returned, consumed } = snapshot;
  const sizeOf = (shard: number) => (plan.shards[shard] as Shard).records;
  const order = shuffledOrder(plan, epoch);
  const left = new Map<number, number>();
  const count = (of: number, records: number) => left.set(of, (left.get(of) ?? 0) + records);
  for (const part of returned) count(part.epoch, part.to - part.from);
  for (const shard of order.slice(next)) count(epoch, sizeOf(shard));
  return {
    plan,
    term,
    generation: Math.max(generation, snapshot.generation) + 1,
    epoch,
    order,
    next,
    returned,
    leases: [],
    granted: 0,
    waiting: [],
    open: [...left].map(([of, records]) => ({ epoch: of, records })).sort((a, b) => a.epoch - b.epoch),
    consumed,
  };
}
