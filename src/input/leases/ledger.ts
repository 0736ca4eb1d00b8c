/**
 * The chief's ledger of data shards, as a pure reducer: `reduce(state, event)` gives the next state and the effects
 * to carry out. It knows of every record how far it has come: not handed out, leased to a worker, consumed.
 *
 * A shard is a range of a file. A worker goes through it in one fixed order (shuffled by a seed that the lease
 * tells), so a record is known by its place in that order. A lease is for the places from one to another; a worker
 * reports those that its completed steps have consumed, never what it has merely read ahead. When it dies, what is
 * left of its leases goes to others; where several steps were under way that may be more than one piece.
 *
 * Epochs do not wait for each other: while the last shards of one are still out, those of the next are leased. Each
 * epoch holds every record once, whoever consumed it and whenever.
 */

import * as v from 'valibot';
import { invalid, ShoalError } from '../../errors/errors.js';
import type { Shard } from '../dataset/record-ranges.js';
import { type Range, sizeOfRanges, without, withRange } from '../files/ranges.js';
import { shardSeed, shuffledOrder } from './shard-order.js';

/** A shard, or what is left of it, in the hands of a worker. */
export interface Lease {
  /** Unique in the life of a job, and growing. */
  readonly id: number;
  readonly worker: string;
  readonly epoch: number;
  /** The number of the shard. */
  readonly shard: number;
  readonly file: string;
  readonly offset: number;
  /** Of the whole shard. */
  readonly records: number;
  readonly bytes?: number | undefined;
  readonly size?: number | undefined;
  /** The lease is for the records from this place in the shard's order on, */
  readonly from: number;
  /** up to this one, which is not of it. */
  readonly to: number;
  /** Of the shard's order in this epoch. */
  readonly seed: number;
}

/** What is to be handed out (again): some records of a shard. */
interface Part extends Range {
  readonly epoch: number;
  readonly shard: number;
}

interface OpenLease extends Part {
  readonly id: number;
  readonly worker: string;
  /** What of it is consumed. */
  readonly consumed: readonly Range[];
}

export interface LedgerPlan {
  readonly shards: readonly Shard[];
  /** null: for ever. */
  readonly epochs: number | null;
  /** Rules the order of shards and of the records in them. */
  readonly seed: number;
  /** Whether shards come in another order in each epoch. */
  readonly shuffleShards: boolean;
}

export interface LedgerState {
  readonly plan: LedgerPlan;
  /** Counts restores; leases of earlier generations are void. */
  readonly generation: number;
  /** The epoch that is being handed out. */
  readonly epoch: number;
  /** Its shards in their order, and the next one's place there. */
  readonly order: readonly number[];
  readonly next: number;
  /** Given back, to be leased before anything else. */
  readonly returned: readonly Part[];
  readonly leases: readonly OpenLease[];
  readonly granted: number;
  /** Workers that asked when there was nothing to lease. */
  readonly waiting: readonly string[];
  /** The records not yet consumed of each epoch that was begun and is not over. */
  readonly open: readonly { readonly epoch: number; readonly records: number }[];
  /** Records consumed, over all epochs. */
  readonly consumed: number;
}

export type LedgerEvent =
  /** A worker wants a lease. What it does not say it holds, it never got: an answer was lost on the way. */
  | { readonly type: 'ask'; readonly worker: string; readonly holding?: readonly number[] | undefined }
  /** Completed steps of a worker have consumed a lease up to a place; from another one on, or from its beginning. */
  | {
      readonly type: 'ack';
      readonly worker: string;
      readonly lease: number;
      readonly from?: number | undefined;
      readonly upTo: number;
    }
  /** A worker is dead or has left: what it held goes to others. */
  | { readonly type: 'lost'; readonly worker: string };

export type LedgerEffect =
  | { readonly type: 'grant'; readonly worker: string; readonly lease: Lease }
  /** There may be something later: the answer to the worker waits. */
  | { readonly type: 'wait'; readonly worker: string }
  /** There is nothing left and never will be. */
  | { readonly type: 'end'; readonly worker: string }
  | { readonly type: 'refuse'; readonly worker: string; readonly lease: number; readonly why: string }
  | { readonly type: 'epoch-over'; readonly epoch: number }
  | { readonly type: 'all-over' };

export interface LedgerStep {
  readonly state: LedgerState;
  readonly effects: readonly LedgerEffect[];
}

/** Lease ids of one generation come before those of the next; both together are exact numbers. */
export const IDS_PER_GENERATION = 2 ** 20;

/** The highest id of a lease that was given out, or lower ones were all there were before. */
export const lastLease = ({ generation, granted }: LedgerState): number =>
  generation * IDS_PER_GENERATION + granted;

/** The generation of the last lease: that of the ledger, unless it gave out very many. */
export const generationOf = (state: LedgerState): number => Math.floor(lastLease(state) / IDS_PER_GENERATION);

/** @param generation the first: higher than any that was in use where workers may hold leases of an earlier ledger. */
export function newLedger(plan: LedgerPlan, generation = 0): LedgerState {
  const { shards, epochs } = plan;
  if (shards.length === 0 || shards.some(({ records }) => !Number.isSafeInteger(records) || records < 1))
    throw invalid('A ledger needs shards, each with at least one record');
  if (epochs !== null && (!Number.isSafeInteger(epochs) || epochs < 1))
    throw invalid(`The number of epochs must be a whole number from 1, or null for ever; it is ${epochs}`);
  return beginEpoch(
    {
      plan,
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

/** Whether shards are left that were never handed out. */
const hasMore = ({ plan, epoch, next }: LedgerState): boolean =>
  next < plan.shards.length || plan.epochs === null || epoch + 1 < plan.epochs;

export function reduce(state: LedgerState, event: LedgerEvent): LedgerStep {
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
  if (held.worker !== worker) return refuse(`the lease is ${held.worker}'s`);
  const { from = held.from } = event;
  const isInside = held.from <= from && from <= upTo && upTo <= held.to;
  if (!Number.isSafeInteger(from) || !Number.isSafeInteger(upTo) || !isInside)
    return refuse(`it is for the records ${held.from}–${held.to}, not ${from}–${upTo}`);
  const consumed = withRange(held.consumed, { from, to: upTo });
  const grown = sizeOfRanges(consumed) - sizeOfRanges(held.consumed);
  // Reports may overtake each other, or come twice.
  if (grown === 0) return { state, effects: [] };
  const leases =
    sizeOfRanges(consumed) === held.to - held.from
      ? state.leases.filter(({ id }) => id !== lease)
      : state.leases.map((one) => (one.id === lease ? { ...one, consumed } : one));
  return consume({ ...state, leases }, held.epoch, grown);
}

/** Takes records off their epoch's count. */
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

/** Takes a worker's leases back, but for some. */
function reclaim(state: LedgerState, worker: string, but: readonly number[]): LedgerState {
  const isTaken = (lease: OpenLease) => lease.worker === worker && !but.includes(lease.id);
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

/** Answers the workers that wait, as far as there is something to say. */
function serve({ state: before, effects: made }: LedgerStep): LedgerStep {
  let state = before;
  const effects = [...made];
  while (state.waiting.length > 0) {
    const [worker, ...waiting] = state.waiting as [string, ...string[]];
    const part = takePart(state);
    if (!part) break;
    const open: OpenLease = { ...part.taken, id: lastLease(state) + 1, worker, consumed: [] };
    state = { ...part.state, waiting, leases: [...part.state.leases, open], granted: state.granted + 1 };
    effects.push({ type: 'grant', worker, lease: leaseOf(state.plan, open) });
  }
  if (isOver(state)) {
    effects.push(...state.waiting.map((worker) => ({ type: 'end', worker }) as const));
    state = { ...state, waiting: [] };
  }
  return { state, effects };
}

/** What is to be leased next: what came back first, else the next shard of the epoch, else of the next epoch. */
function takePart(state: LedgerState): { readonly state: LedgerState; readonly taken: Part } | undefined {
  const [first, ...returned] = state.returned;
  if (first) return { state: { ...state, returned }, taken: first };
  if (!hasMore(state)) return undefined;
  const ready = state.next < state.order.length ? state : beginEpoch(state, state.epoch + 1);
  const shard = ready.order[ready.next] as number;
  const taken = { epoch: ready.epoch, shard, from: 0, to: (ready.plan.shards[shard] as Shard).records };
  return { state: { ...ready, next: ready.next + 1 }, taken };
}

function leaseOf(plan: LedgerPlan, { id, worker, epoch, shard, from, to }: OpenLease): Lease {
  const seed = shardSeed(plan.seed, epoch, shard);
  return { id, worker, epoch, shard, ...(plan.shards[shard] as Shard), from, to, seed };
}

const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

const CutSchema = v.object({
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

/** The ledger as a checkpoint keeps it, for JSON: what is consumed, and by what plan. */
export interface LedgerSnapshot {
  readonly version: 1;
  readonly plan: LedgerPlan;
  readonly generation: number;
  readonly epoch: number;
  readonly next: number;
  readonly returned: readonly Part[];
  readonly consumed: number;
}

/** The ledger that a checkpoint holds; undefined where it holds none. */
export function parseLedgerCut(value: unknown): LedgerSnapshot | undefined {
  if (value === null || value === undefined) return undefined;
  const { success, output, issues } = v.safeParse(CutSchema, value);
  const { plan, next, returned } = (success ? output : undefined) ?? {};
  const isWhole = (part: Part) => part.to <= ((plan?.shards[part.shard] as Shard | undefined)?.records ?? -1);
  if (!success || !returned?.every(isWhole) || (next as number) > (plan?.shards.length as number)) {
    const why = issues ? `${v.getDotPath(issues[0])}: ${issues[0].message}` : 'its parts are of other shards';
    throw new ShoalError('SHOAL_CORRUPT', `The ledger in the checkpoint can't be read: ${why}`);
  }
  return output;
}

/** The state of this instant. Leases that are out are kept as what they have left. */
export function snapshotOf(state: LedgerState): LedgerSnapshot {
  const { plan, epoch, next, consumed } = state;
  const returned = [...state.returned, ...state.leases.flatMap(remainders)];
  return { version: 1, plan, generation: generationOf(state), epoch, next, returned, consumed };
}

/**
 * The ledger at a cut. Leases given out since then, or before, are void. `generation` is the highest that was in
 * use, where more than one restore goes back to the same cut.
 */
export function restoreLedger(cut: LedgerSnapshot, generation = cut.generation): LedgerState {
  const { plan, epoch, next, returned, consumed } = cut;
  const sizeOf = (shard: number) => (plan.shards[shard] as Shard).records;
  const order = shuffledOrder(plan, epoch);
  const left = new Map<number, number>();
  const count = (of: number, records: number) => left.set(of, (left.get(of) ?? 0) + records);
  for (const part of returned) count(part.epoch, part.to - part.from);
  for (const shard of order.slice(next)) count(epoch, sizeOf(shard));
  return {
    plan,
    generation: Math.max(generation, cut.generation) + 1,
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
