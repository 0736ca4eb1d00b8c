/**
 * The other tasks as the peers store sees them: who there is, on which host, and how to reach their blobs. The
 * cluster gives this; the store knows nothing else of it.
 */
import { createHash } from 'node:crypto';
import { type ErrorDetails, ShoalError } from '../../errors/errors.js';
import type { BlobDigest, BlobSource, OrderedBy, StoreCallOptions } from '../store.js';

/**
 * A task does not let the caller write or delete: the caller has been replaced, or has no right to it. What one task refuses
 * is not tried at another.
 */
export class PeerRefusal extends ShoalError {
  override readonly name = 'PeerRefusal';

  constructor(message: string, details: ErrorDetails = {}) {
    super('SHOAL_FORBIDDEN', message, details);
  }
}

export interface PeerMember {
  /** The name of the task as a place: `ps/0`. */
  readonly place: string;
  /** Tasks with the same host are lost together. */
  readonly host: string;
  /** Whether it is worth asking. */
  readonly alive: boolean;
  /** Who is asked to hold replicas: those with the lowest number first, 0 unless told. */
  readonly turn?: number;
}

export interface PeerBlob {
  readonly name: string;
  readonly size: number;
  readonly modifiedMs: number;
}

export interface PeerWriteOptions extends StoreCallOptions {
  readonly size?: number | undefined;
  readonly ifAbsent?: boolean | undefined;
  readonly crc32c?: (() => number | Promise<number>) | undefined;
  readonly orderedBy?: OrderedBy | undefined;
}

export interface PeerReadOptions extends StoreCallOptions {
  readonly start?: number | undefined;
  readonly end?: number | undefined;
  /** How often it is tried while no byte moves. */
  readonly attempts?: number | undefined;
}

/** The blobs of one task, as its agent serves them. */
export interface PeerBlobs {
  write(
    name: string,
    source: BlobSource | Uint8Array,
    options?: PeerWriteOptions,
  ): Promise<BlobDigest & { readonly published: boolean }>;
  read(name: string, options?: PeerReadOptions): AsyncIterable<Uint8Array>;
  stat(name: string, options?: StoreCallOptions): Promise<PeerBlob | undefined>;
  digest(name: string, options?: StoreCallOptions): Promise<BlobDigest>;
  list(prefix?: string, options?: StoreCallOptions): AsyncIterable<PeerBlob>;
  remove(name: string, options?: StoreCallOptions): Promise<void>;
}

export interface Peers {
  /** The place of this task. */
  readonly self: string;
  /** Every task that has not left, this one included. */
  members(): readonly PeerMember[];
  /** The blobs of another task, wherever it lives at the moment. */
  blobs(place: string): PeerBlobs;
  /**
   * Why this task may not write or delete on its own disk, as far as it knows: it has been replaced, or the task whose
   * order it carries out has. Undefined when it may.
   */
  refusal?(orderedBy?: OrderedBy): string | undefined;
}

/** Throws when this task may not write or delete on its own disk. */
export function checkOwn(peers: Peers, name: string, orderedBy?: OrderedBy): void {
  const why = peers.refusal?.(orderedBy);
  if (why !== undefined) throw new PeerRefusal(`${peers.self} may not change blob ${name}: ${why}`);
}

/** Places in an order that is the same wherever it is computed, and another for each key. */
export function ranked<M extends { readonly place: string }>(
  key: string,
  members: readonly M[],
): readonly M[] {
  const scored = members.map((member) => ({
    member,
    score: createHash('sha256').update(`${key}\n${member.place}`).digest('hex'),
  }));
  return scored.sort((a, b) => (a.score < b.score ? -1 : 1)).map(({ member }) => member);
}

/**
 * Who is to hold replicas, best first: tasks on hosts of their own, then further tasks of those hosts; tasks of
 * this host only where there is no other. All blobs of one folder and task go the same way, so that a lost host
 * takes few pairs of them with it.
 */
export function replicaCandidates(peers: Peers, name: string): readonly PeerMember[] {
  const members = peers.members();
  const host = members.find(({ place }) => place === peers.self)?.host;
  const others = members.filter(({ place, alive }) => alive && place !== peers.self);
  const byRank = ranked(`${name.split('/', 1)[0]} ${peers.self}`, others);
  const order = [...byRank].sort((a, b) => (a.turn ?? 0) - (b.turn ?? 0));
  const away = order.filter((member) => member.host !== host);
  if (away.length === 0) return order;
  const isFirst = (member: PeerMember) => away.find((other) => other.host === member.host) === member;
  return [...away.filter(isFirst), ...away.filter((member) => !isFirst(member))];
}
