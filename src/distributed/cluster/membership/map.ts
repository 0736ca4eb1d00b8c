/**
 * The part of membership that all tasks share: a map from task to the entry of its latest process.
 *
 * Entries of one task are totally ordered and the greater wins, so merging is commutative, associative and
 * idempotent: tasks that received the same entries, in any order and any number of times, hold the same map. This
 * needs neither a lock nor a leader.
 */
import { createHash } from 'node:crypto';
import { parseTaskId, type TaskId } from '../spec/task-id.js';

/** One incarnation of a task. A greater incarnation replaces a smaller one. */
export interface Identity {
  readonly task: TaskId;
  readonly incarnation: number;
  /** Random: orders two processes with the same incarnation. */
  readonly nonce: string;
}

export interface MapEntry extends Identity {
  /** The lowest incarnation of this task that any task has seen. */
  readonly first: number;
  readonly agentAddress: string;
  /** Where TensorFlow listens; null for a task without a server. */
  readonly serverAddress: string | null;
  readonly host: string;
  readonly pid: number;
  /** It sent a leave message or was removed. Final for this incarnation. */
  readonly left: boolean;
  /** Counts the reports of this incarnation about itself; the latest wins. */
  readonly beat: number;
  readonly step: number | null;
}

export type EntryMap = ReadonlyMap<TaskId, MapEntry>;

export function compareIdentity(a: Omit<Identity, 'task'>, b: Omit<Identity, 'task'>): number {
  if (a.incarnation !== b.incarnation) return a.incarnation - b.incarnation;
  return a.nonce === b.nonce ? 0 : a.nonce < b.nonce ? -1 : 1;
}

export function sameIdentity(a: Identity, b: Identity): boolean {
  return a.task === b.task && compareIdentity(a, b) === 0;
}

function compareEntries(a: MapEntry, b: MapEntry): number {
  const order = compareIdentity(a, b) || Number(a.left) - Number(b.left) || a.beat - b.beat;
  if (order !== 0) return order;
  // A task sends one entry per beat. The text makes the order total for any other input.
  const text = ({ agentAddress, serverAddress, host, pid, step }: MapEntry) =>
    JSON.stringify([agentAddress, serverAddress, host, pid, step]);
  const [left, right] = [text(a), text(b)];
  return left === right ? 0 : left < right ? -1 : 1;
}

export function mergeEntries(a: MapEntry, b: MapEntry): MapEntry {
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
 * Counts the incarnations of all ps: when it rises, workers open a new session. It depends on the map alone, so tasks
 * with the same map have the same epoch. A merge only raises `incarnation` and lowers `first`, so the epoch never
 * falls. A restarted ps that reaches no peer takes its incarnation from the clock; the resulting jump is harmless.
 */
export function epochOf(entries: Iterable<MapEntry>): number {
  let epoch = 0;
  for (const entry of entries) {
    if (parseTaskId(entry.task).job === 'ps') epoch += entry.incarnation - entry.first + 1;
  }
  return epoch;
}

/** Equal for two tasks if and only if neither knows an incarnation that the other does not. */
export function mapDigest(entries: Iterable<MapEntry>): string {
  const lines = [...entries].map(
    ({ task, incarnation, nonce, first, left }) => `${task} ${incarnation} ${nonce} ${first} ${left}`,
  );
  return createHash('sha256').update(lines.sort().join('\n')).digest('base64url').slice(0, 22);
}
