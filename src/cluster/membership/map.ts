/**
 * The part of membership that every task shares: a map from task to the entry of its latest process.
 *
 * Entries of one task are totally ordered and the greater wins, so merging is commutative, associative and
 * idempotent: any two tasks that have heard the same things, in whatever order and however often, hold the
 * same map. No lock and no leader is needed for that.
 */
import { createHash } from 'node:crypto';
import { parseTaskId, type TaskId } from '../spec/task-id.js';

/** One life of a task. A life with a greater incarnation replaces one with a smaller. */
export interface Identity {
  readonly task: TaskId;
  readonly incarnation: number;
  /** Drawn at start: decides between two processes that took the same incarnation. */
  readonly nonce: string;
}

export interface Entry extends Identity {
  /** The lowest incarnation of this task that anybody has seen. */
  readonly first: number;
  readonly agentAddress: string;
  /** Where TensorFlow listens; null for a task without a server. */
  readonly serverAddress: string | null;
  readonly host: string;
  readonly pid: number;
  /** It said good-bye or was removed. Final for this life. */
  readonly left: boolean;
  /** Counts what this life has said of itself; a later word wins. */
  readonly beat: number;
  readonly step: number | null;
}

export type EntryMap = ReadonlyMap<TaskId, Entry>;

export function compareIdentity(a: Omit<Identity, 'task'>, b: Omit<Identity, 'task'>): number {
  if (a.incarnation !== b.incarnation) return a.incarnation - b.incarnation;
  return a.nonce === b.nonce ? 0 : a.nonce < b.nonce ? -1 : 1;
}

export function sameIdentity(a: Identity, b: Identity): boolean {
  return a.task === b.task && compareIdentity(a, b) === 0;
}

function compareEntries(a: Entry, b: Entry): number {
  const byLife = compareIdentity(a, b) || Number(a.left) - Number(b.left) || a.beat - b.beat;
  if (byLife !== 0) return byLife;
  // A task never says two things in one beat; the text only makes the order total whatever arrives.
  const text = ({ agentAddress, serverAddress, host, pid, step }: Entry) =>
    JSON.stringify([agentAddress, serverAddress, host, pid, step]);
  const [left, right] = [text(a), text(b)];
  return left === right ? 0 : left < right ? -1 : 1;
}

/** The entry that remains when two of one task meet. */
export function mergeEntries(a: Entry, b: Entry): Entry {
  const winner = compareEntries(a, b) >= 0 ? a : b;
  const first = Math.min(a.first, b.first);
  return winner.first === first ? winner : { ...winner, first };
}

export function mergeMaps(a: EntryMap, b: EntryMap): EntryMap {
  const merged = new Map(a);
  for (const [task, entry] of b) {
    const known = merged.get(task);
    merged.set(task, known === undefined ? entry : mergeEntries(known, entry));
  }
  return merged;
}

/**
 * Counts the lives of all ps: a step up obliges workers to make a fresh session. It follows from the map
 * alone, so tasks that agree on the map agree on the epoch; as `incarnation` only rises and `first` only
 * falls in a merge, it never goes back. A ps whose restart could not ask anybody takes its incarnation from
 * the clock, which makes the epoch jump; that is harmless.
 */
export function epochOf(entries: Iterable<Entry>): number {
  let epoch = 0;
  for (const entry of entries) {
    if (parseTaskId(entry.task).job === 'ps') epoch += entry.incarnation - entry.first + 1;
  }
  return epoch;
}

/** Equal for two tasks exactly when neither can tell the other of a life that it has not heard of. */
export function digestOf(entries: Iterable<Entry>): string {
  const lines = [...entries].map(
    ({ task, incarnation, nonce, first, left }) => `${task} ${incarnation} ${nonce} ${first} ${left}`,
  );
  return createHash('sha256').update(lines.sort().join('\n')).digest('base64url').slice(0, 22);
}
