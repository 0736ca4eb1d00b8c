/**
 * The commit of one checkpoint, as a state machine without input or output. Its caller carries out the effects and tells
 * what came of them.
 *
 *   parking → snapshot → writing → index → manifest → committed
 *        └────────┴─────────┴────────┴────────┴────→ failed
 *
 * What makes it safe on any store: every attempt writes under names of its own, and the manifest, which alone makes a
 * checkpoint of them, is put last and in one instant. Up to there a failure leaves blobs that no manifest names, which
 * are swept; from there on the checkpoint is whole. Workers rest from the moment they have parked until all snapshots
 * are taken, and in every failure they are let go first.
 */

import { ShoalError } from '../errors/errors.js';

export type Phase = 'parking' | 'snapshot' | 'writing' | 'index' | 'manifest' | 'committed' | 'failed';

export interface Commit<Shard> {
  readonly phase: Phase;
  /** Workers that must rest, and owners of variables, in order. */
  readonly workers: readonly string[];
  readonly owners: readonly string[];
  /** Whom the phase still waits for. */
  readonly waiting: readonly string[];
  /** What each owner has written. */
  readonly shards: ReadonlyMap<string, Shard>;
  readonly error: unknown;
}

export type CommitEvent<Shard> =
  | { readonly type: 'parked'; readonly worker: string }
  | { readonly type: 'snapshotted'; readonly owner: string }
  | { readonly type: 'written'; readonly owner: string; readonly shard: Shard }
  | { readonly type: 'indexed' }
  | { readonly type: 'published' }
  /** A task is gone: of a worker nobody waits any more, without an owner there is no checkpoint. */
  | { readonly type: 'lost'; readonly task: string }
  /** A worker began to train after the others were told to park. */
  | { readonly type: 'joined'; readonly task: string }
  | { readonly type: 'failed'; readonly error: unknown };

export type CommitEffect<Shard> =
  | { readonly type: 'park'; readonly workers: readonly string[] }
  | { readonly type: 'snapshot'; readonly owners: readonly string[] }
  | { readonly type: 'resume'; readonly workers: readonly string[] }
  | { readonly type: 'write'; readonly owners: readonly string[] }
  | { readonly type: 'write-index'; readonly shards: readonly Shard[] }
  | { readonly type: 'write-manifest' }
  | { readonly type: 'drop'; readonly owners: readonly string[] }
  /** Remove what the attempt has written. */
  | { readonly type: 'discard' };

interface Next<Shard> {
  readonly state: Commit<Shard>;
  readonly effects: readonly CommitEffect<Shard>[];
}

/** Begins: with workers a cut, without a loose save. */
export function beginCommit<Shard>(owners: readonly string[], workers: readonly string[]): Next<Shard> {
  const blank: Commit<Shard> = {
    phase: 'parking',
    workers,
    owners,
    waiting: workers,
    shards: new Map(),
    error: undefined,
  };
  if (workers.length === 0) return snapshot(blank);
  return { state: blank, effects: [{ type: 'park', workers }] };
}

export function reduceCommit<Shard>(state: Commit<Shard>, event: CommitEvent<Shard>): Next<Shard> {
  const { phase } = state;
  if (phase === 'committed' || phase === 'failed') return { state, effects: [] };
  switch (event.type) {
    case 'parked':
      return phase === 'parking' ? parked(state, event.worker) : { state, effects: [] };
    case 'snapshotted':
      return phase === 'snapshot' ? snapshotted(state, event.owner) : { state, effects: [] };
    case 'written':
      return phase === 'writing' ? written(state, event.owner, event.shard) : { state, effects: [] };
    case 'indexed':
      return phase === 'index'
        ? { state: { ...state, phase: 'manifest' }, effects: [{ type: 'write-manifest' }] }
        : { state, effects: [] };
    case 'published':
      return { state: phase === 'manifest' ? { ...state, phase: 'committed' } : state, effects: [] };
    case 'lost':
      return lost(state, event.task);
    case 'joined':
      return phase === 'parking' || phase === 'snapshot'
        ? failed(state, unreachable(event.task, 'came while the others were parked'))
        : { state, effects: [] };
    case 'failed':
      return failed(state, event.error);
  }
}

const without = (list: readonly string[], one: string): readonly string[] => list.filter((x) => x !== one);

function parked<Shard>(state: Commit<Shard>, worker: string): Next<Shard> {
  const waiting = without(state.waiting, worker);
  return waiting.length > 0 ? { state: { ...state, waiting }, effects: [] } : snapshot({ ...state, waiting });
}

function snapshot<Shard>(state: Commit<Shard>): Next<Shard> {
  const { owners } = state;
  return {
    state: { ...state, phase: 'snapshot', waiting: owners },
    effects: [{ type: 'snapshot', owners }],
  };
}

function snapshotted<Shard>(state: Commit<Shard>, owner: string): Next<Shard> {
  const { owners } = state;
  const waiting = without(state.waiting, owner);
  if (waiting.length > 0) return { state: { ...state, waiting }, effects: [] };
  return {
    state: { ...state, phase: 'writing', waiting: owners },
    effects: [...release(state), { type: 'write', owners }],
  };
}

function written<Shard>(state: Commit<Shard>, owner: string, shard: Shard): Next<Shard> {
  if (!state.waiting.includes(owner)) return { state, effects: [] };
  const waiting = without(state.waiting, owner);
  const shards = new Map(state.shards).set(owner, shard);
  if (waiting.length > 0) return { state: { ...state, waiting, shards }, effects: [] };
  const inOrder = state.owners.map((name) => shards.get(name) as Shard);
  return {
    state: { ...state, phase: 'index', waiting, shards },
    effects: [{ type: 'write-index', shards: inOrder }],
  };
}

function lost<Shard>(state: Commit<Shard>, task: string): Next<Shard> {
  const { phase, owners, workers, shards } = state;
  const rest = workers.includes(task) ? { ...state, workers: without(workers, task) } : state;
  const stillNeeds =
    phase === 'parking' || phase === 'snapshot' || (phase === 'writing' && !shards.has(task));
  if (owners.includes(task) && stillNeeds) {
    return failed(rest, unreachable(task, 'was lost with what it was to save'));
  }
  return phase === 'parking' ? parked(rest, task) : { state: rest, effects: [] };
}

const unreachable = (task: string, what: string): ShoalError =>
  new ShoalError('SHOAL_UNREACHABLE', `The checkpoint was not saved: ${task} ${what}`, { task });

/** Workers rest in the first two phases only. */
function release<Shard>({ phase, workers }: Commit<Shard>): CommitEffect<Shard>[] {
  const rests = phase === 'parking' || phase === 'snapshot';
  return rests && workers.length > 0 ? [{ type: 'resume', workers }] : [];
}

function failed<Shard>(state: Commit<Shard>, error: unknown): Next<Shard> {
  const { phase, owners } = state;
  const effects: CommitEffect<Shard>[] = release(state);
  if (phase !== 'parking') effects.push({ type: 'drop', owners });
  // A manifest may have arrived although its writer never heard of it: then it decides, and nothing is removed.
  if (phase === 'writing' || phase === 'index') effects.push({ type: 'discard' });
  return { state: { ...state, phase: 'failed', waiting: [], error }, effects };
}
