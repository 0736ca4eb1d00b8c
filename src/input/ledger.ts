/**
 * The chief's ledger of data shards, as a pure reducer: `reduce(state, event)` gives the next state and the effects
 * to carry out. It knows of every record how far it has come: not handed out, leased to a worker, consumed.
 *
 * A shard is a range of a file. A worker goes through it in one fixed order (shuffled by a seed that the lease
 * tells), so one number says what has been consumed: the count of records from the start of that order. A worker
 * reports the count that its completed steps have consumed, never what it has merely read ahead. When it dies, the
 * rest of its shard is leased to another, from that count on.
 *
 * Epochs do not wait for each other: while the last shards of one are still out, those of the next are leased. Each
 * epoch holds every record once, whoever consumed it and whenever.
 */
import { invalid } from '../errors/errors.js';
import { shardSeed, shuffledOrder } from './shard-order.js';

/** A range of a file. */
export interface Shard {
  readonly file: string;
  readonly offset: number;
  readonly records: number;
}

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
  /** How many of them, in the shard's order, were consumed under earlier leases. */
  readonly from: number;
  /** Of the shard's order in this epoch. */
  readonly seed: number;
}

/** What is to be handed out (again): the records of a shard from a count on. */
interface Part {
  readonly epoch: number;
  readonly shard: number;
  readonly from: number;
}

interface OpenLease extends Part {
  readonly id: number;
  readonly worker: string;
  /** How many records of the shard are consumed; begins at `from`. */
  readonly upTo: number;
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
  /** Completed steps of a worker have consumed a shard up to this count. */
  | { readonly type: 'ack'; readonly worker: string; readonly lease: number; readonly upTo: number }
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

/** Lease ids of one generation come before those of the next. */
const IDS_PER_GENERATION = 2 ** 32;

export function newLedger(plan: LedgerPlan): LedgerState {
  const { shards, epochs } = plan;
  if (shards.length === 0 || shards.some(({ records }) => !Number.isSafeInteger(records) || records < 1))
    throw invalid('A ledger needs shards, each with at least one record');
  if (epochs !== null && (!Number.isSafeInteger(epochs) || epochs < 1))
    throw invalid(`The number of epochs must be a whole number from 1, or null for ever; it is ${epochs}`);
  return beginEpoch(
    {
      plan,
      generation: 0,
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

function ack(
  state: LedgerState,
  { worker, lease, upTo }: LedgerEvent & { readonly type: 'ack' },
): LedgerStep {
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
  const { records } = state.plan.shards[held.shard] as Shard;
  if (!Number.isSafeInteger(upTo) || upTo > records)
    return refuse(`the shard has ${records} records, not ${upTo}`);
  // Reports may overtake each other: the highest count holds.
  if (upTo <= held.upTo) return { state, effects: [] };
  const leases =
    upTo === records
      ? state.leases.filter(({ id }) => id !== lease)
      : state.leases.map((one) => (one.id === lease ? { ...one, upTo } : one));
  return consume({ ...state, leases }, held.epoch, upTo - held.upTo);
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
    returned: [...state.returned, ...taken.map(remainder)],
  };
}

const remainder = ({ epoch, shard, upTo }: OpenLease): Part => ({ epoch, shard, from: upTo });

/** Answers the workers that wait, as far as there is something to say. */
function serve({ state: before, effects: made }: LedgerStep): LedgerStep {
  let state = before;
  const effects = [...made];
  while (state.waiting.length > 0) {
    const [worker, ...waiting] = state.waiting as [string, ...string[]];
    const part = takePart(state);
    if (!part) break;
    const id = state.generation * IDS_PER_GENERATION + state.granted + 1;
    const open: OpenLease = { ...part.taken, id, worker, upTo: part.taken.from };
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
  const taken = { epoch: ready.epoch, shard: ready.order[ready.next] as number, from: 0 };
  return { state: { ...ready, next: ready.next + 1 }, taken };
}

function leaseOf(plan: LedgerPlan, { id, worker, epoch, shard, from }: OpenLease): Lease {
  const { file, offset, records } = plan.shards[shard] as Shard;
  return { id, worker, epoch, shard, file, offset, records, from, seed: shardSeed(plan.seed, epoch, shard) };
}

/** The ledger as a checkpoint keeps it, for JSON: what is consumed, and by what plan. */
export interface LedgerCut {
  readonly version: 1;
  readonly plan: LedgerPlan;
  readonly generation: number;
  readonly epoch: number;
  readonly next: number;
  readonly returned: readonly Part[];
  readonly consumed: number;
}

/** The state of this instant. Leases that are out are kept as what they have left. */
export function cutOf(state: LedgerState): LedgerCut {
  const { plan, generation, epoch, next, consumed } = state;
  const returned = [...state.returned, ...state.leases.map(remainder)];
  return { version: 1, plan, generation, epoch, next, returned, consumed };
}

/**
 * The ledger at a cut. Leases given out since then, or before, are void. `generation` is the highest that was in
 * use, where more than one restore goes back to the same cut.
 */
export function restoreLedger(cut: LedgerCut, generation = cut.generation): LedgerState {
  if (cut.version !== 1) throw invalid(`A ledger of version ${cut.version} can't be read`);
  const { plan, epoch, next, returned, consumed } = cut;
  const sizeOf = (shard: number) => (plan.shards[shard] as Shard).records;
  const order = shuffledOrder(plan, epoch);
  const left = new Map<number, number>();
  const count = (of: number, records: number) => left.set(of, (left.get(of) ?? 0) + records);
  for (const part of returned) count(part.epoch, sizeOf(part.shard) - part.from);
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
