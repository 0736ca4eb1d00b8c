/**
 * The commit of one checkpoint, as a state machine without I/O. Its caller carries out the effects and reports their
 * results as events.
 *
 *   pausing → snapshot → writing → index → manifest → committed
 *        └────────┴─────────┴────────┴────────┴────→ failed
 *
 * It is safe on any store: every attempt writes under its own names, and the manifest, which alone makes them a
 * checkpoint, is put last and atomically. A failure before that leaves blobs without a manifest, which are removed
 * later; after it the checkpoint is complete. Workers stay paused until all snapshots are taken; on failure they resume
 * first.
 */

import { ShoalError } from '../../../base/errors/errors.js';

export type Phase = 'pausing' | 'snapshot' | 'writing' | 'index' | 'manifest' | 'committed' | 'failed';

export interface Commit<Shard> {
  readonly phase: Phase;
  /** Workers that must pause, and owners of variables, in order. */
  readonly workers: readonly string[];
  readonly owners: readonly string[];
  /** The tasks that the phase still waits for. */
  readonly waiting: readonly string[];
  /** What each owner has written. */
  readonly shards: ReadonlyMap<string, Shard>;
  readonly error: unknown;
}

export type CommitEvent<Shard> =
  | { readonly type: 'paused'; readonly worker: string }
  | { readonly type: 'snapshotted'; readonly owner: string }
  | { readonly type: 'written'; readonly owner: string; readonly shard: Shard }
  | { readonly type: 'indexed' }
  | { readonly type: 'published' }
  /** A task was lost. The save no longer waits for a worker; without an owner it fails. */
  | { readonly type: 'lost'; readonly task: string }
  /** A worker began to train after the others were asked to pause. */
  | { readonly type: 'joined'; readonly task: string }
  | { readonly type: 'failed'; readonly error: unknown };

export type CommitEffect<Shard> =
  | { readonly type: 'pause'; readonly workers: readonly string[] }
  | { readonly type: 'snapshot'; readonly owners: readonly string[] }
  | { readonly type: 'resume'; readonly workers: readonly string[] }
  | { readonly type: 'write'; readonly owners: readonly string[] }
  | { readonly type: 'write-index'; readonly shards: readonly Shard[] }
  | { readonly type: 'write-manifest' }
  | { readonly type: 'drop'; readonly owners: readonly string[] }
  /** Remove the files of the attempt. */
  | { readonly type: 'discard' };

interface Next<Shard> {
  readonly state: Commit<Shard>;
  readonly effects: readonly CommitEffect<Shard>[];
}

/** Begins a save: consistent if workers are given, relaxed otherwise. */
export function beginCommit<Shard>(owners: readonly string[], workers: readonly string[]): Next<Shard> {
  const blank: Commit<Shard> = {
    phase: 'pausing',
    workers,
    owners,
    waiting: workers,
    shards: new Map(),
    error: undefined,
  };
  if (workers.length === 0) return snapshot(blank);
  return { state: blank, effects: [{ type: 'pause', workers }] };
}

export function reduceCommit<Shard>(state: Commit<Shard>, event: CommitEvent<Shard>): Next<Shard> {
  const { phase } = state;
  if (phase === 'committed' || phase === 'failed') return { state, effects: [] };
  switch (event.type) {
    case 'paused':
      return phase === 'pausing' ? paused(state, event.worker) : { state, effects: [] };
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
      return phase === 'pausing' || phase === 'snapshot'
        ? failed(state, unreachable(event.task, 'joined while the others were paused'))
        : { state, effects: [] };
    case 'failed':
      return failed(state, event.error);
  }
}

const without = (list: readonly string[], one: string): readonly string[] => list.filter((x) => x !== one);

function paused<Shard>(state: Commit<Shard>, worker: string): Next<Shard> {
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
  const next = workers.includes(task) ? { ...state, workers: without(workers, task) } : state;
  const stillNeeds =
    phase === 'pausing' || phase === 'snapshot' || (phase === 'writing' && !shards.has(task));
  if (owners.includes(task) && stillNeeds) {
    return failed(next, unreachable(task, 'was lost before its values were saved'));
  }
  return phase === 'pausing' ? paused(next, task) : { state: next, effects: [] };
}

const unreachable = (task: string, what: string): ShoalError =>
  new ShoalError('SHOAL_UNREACHABLE', `The checkpoint was not saved: ${task} ${what}`, { task });

/** Workers are paused in the first two phases only. */
function release<Shard>({ phase, workers }: Commit<Shard>): CommitEffect<Shard>[] {
  const arePaused = phase === 'pausing' || phase === 'snapshot';
  return arePaused && workers.length > 0 ? [{ type: 'resume', workers }] : [];
}

function failed<Shard>(state: Commit<Shard>, error: unknown): Next<Shard> {
  const { phase, owners } = state;
  const effects: CommitEffect<Shard>[] = release(state);
  if (phase !== 'pausing') effects.push({ type: 'drop', owners });
  // The manifest may be in the store although its put failed here. Then the checkpoint exists: nothing is removed.
  if (phase === 'writing' || phase === 'index') effects.push({ type: 'discard' });
  return { state: { ...state, phase: 'failed', waiting: [], error }, effects };
}
