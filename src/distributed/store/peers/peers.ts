/**
 * The interface between the peers store and the cluster: the other tasks, their hosts and their blobs.
 */
import { createHash } from 'node:crypto';
import { type ErrorDetails, ShoalError } from '../../../base/errors/errors.js';
import type { BlobDigest, BlobSource, OrderedBy, StoreCallOptions } from '../store.js';

/**
 * A task refuses a write or delete, because the caller has been replaced or has no permission. Not retried at another
 * task.
 */
export class PeerRefusal extends ShoalError {
  override readonly name = 'PeerRefusal';

  constructor(message: string, details: ErrorDetails = {}) {
    super('SHOAL_FORBIDDEN', message, details);
  }
}

export interface PeerMember {
  /** The place name of the task: `ps/0`. */
  readonly place: string;
  /** Tasks on the same host fail together. */
  readonly host: string;
  readonly alive: boolean;
  /** The priority for replicas, lowest first; default: 0. */
  readonly turn?: number;
}

export interface PeerBlob {
  readonly name: string;
  readonly size: number;
  readonly modifiedMs: number;
}

export interface PeerWriteOptions extends StoreCallOptions {
  readonly size?: number;
  readonly ifAbsent?: boolean;
  readonly crc32c?: () => number | Promise<number>;
  readonly orderedBy?: OrderedBy;
}

export interface PeerReadOptions extends StoreCallOptions {
  readonly start?: number;
  readonly end?: number;
  /** Consecutive attempts without progress before the read fails. */
  readonly attempts?: number;
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
  /** The blobs of another task at its current address. */
  blobs(place: string): PeerBlobs;
  /**
   * Why this task may not write or delete on its own disk, as far as it knows: it, or the task whose order it executes,
   * has been replaced. Undefined when allowed.
   */
  refusal?(orderedBy?: OrderedBy): string | undefined;
}

/** Throws when this task may not write or delete on its own disk. */
export function checkOwn(peers: Peers, name: string, orderedBy?: OrderedBy): void {
  const why = peers.refusal?.(orderedBy);
  if (why !== undefined) throw new PeerRefusal(`${peers.self} cannot change blob ${name}: ${why}`);
}

/** Rendezvous hashing: orders places the same way on every task, differently for each key. */
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
 * Candidates for replicas, best first: one task of each other host, then the other tasks of those hosts; tasks of this
 * host only if there is no other host. All blobs of one folder and task share an order, so that losing two hosts
 * affects few blobs.
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
