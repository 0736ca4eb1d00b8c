/**
 * What a store is: named blobs that are there whole or not at all. One interface for a directory, the disks of
 * all tasks, a bucket and memory, so that one commit protocol serves them all.
 *
 * A blob is written once, as a stream (a bucket's multipart upload), and published in one instant: replacing
 * what was there, or only if nothing was (`ifAbsent`, a bucket's conditional put). Names are parts separated by
 * slashes. Where a blob may lie in several places, a place is told by a name such as `ps/0`.
 */

import type { KeptFiles } from './kept-files.js';

/**
 * Gives the bytes from an offset on; asked again, with any offset, when a way broke or another copy is made.
 * A chunk is its taker's until the next one is asked for: then its memory may be gone. Chunks of some MiB are best.
 */
export type BlobSource = (offset: number) => AsyncIterable<Uint8Array>;

/** The one place of a store that has no others. */
export const HERE = 'here';

export interface StoreCallOptions {
  readonly signal?: AbortSignal | undefined;
  /** How long nothing may move. */
  readonly timeoutMs?: number | undefined;
}

export interface BlobInfo {
  readonly name: string;
  readonly size: number;
  readonly modifiedMs: number;
  /** Who holds a copy of this size. */
  readonly places: readonly string[];
}

/** The process whose order is carried out. One with a higher incarnation replaces it, and its orders end. */
export interface OrderedBy {
  readonly task: string;
  readonly incarnation: number;
  readonly nonce: string;
}

export interface PutOptions extends StoreCallOptions {
  /** Known beforehand: room for it is checked before anything is written. */
  readonly size?: number | undefined;
  /** Tells the crc32c of the whole after the last chunk of a pass, where the source knows it: nobody else sums then. */
  readonly crc32c?: (() => number) | undefined;
  /** Have a place that can do it while it writes read every byte back; another one is an error. */
  readonly readBack?: boolean | undefined;
  /** Whether a chunk of the source stays as it is until the next but one is asked for: it need not be copied then. */
  readonly lasting?: boolean | undefined;
  /** The name is one that nobody has put before: no copies are looked for that this one would replace. */
  readonly isNew?: boolean | undefined;
  /** Do not replace a blob that is there. */
  readonly ifAbsent?: boolean | undefined;
  /** Here and at `replicas` others, or wherever it can be had: what must survive everybody, a manifest. */
  readonly copies?: 'replicated' | 'everywhere' | undefined;
  /** On whose order the blob is written, where that is another task's. */
  readonly orderedBy?: OrderedBy | undefined;
}

export interface PutResult {
  /** False when `ifAbsent` found a blob. */
  readonly published: boolean;
  readonly size: number;
  readonly crc32c: number;
  /** Who holds a copy. */
  readonly places: readonly string[];
  /** Copies that were wanted and could not be had. */
  readonly shortfall: number;
  /** Places that have read their copy back, where that was asked for. */
  readonly readBack?: readonly string[] | undefined;
}

export interface ReadOptions extends StoreCallOptions {
  readonly start?: number | undefined;
  /** One past the last byte; the end of the blob unless told. */
  readonly end?: number | undefined;
  /** This copy and no other. */
  readonly place?: string | undefined;
}

export interface ReadIntoOptions extends StoreCallOptions {
  readonly start?: number | undefined;
  /** Where a file that is read is left open for the next read of it. */
  readonly kept?: KeptFiles | undefined;
  /** Called once nothing writes to the memory any more: after a read that was given up, that may be much later. */
  readonly onIdle?: (() => void) | undefined;
  /** This copy and no other. */
  readonly place?: string | undefined;
}

export interface PlaceOptions extends StoreCallOptions {
  /** This copy and no other. */
  readonly place?: string | undefined;
}

export interface BlobListOptions extends StoreCallOptions {
  /** Blobs and folders that are not wanted, by name: a store need not look at them, and may list them all the same. */
  readonly skip?: ((name: string) => boolean) | undefined;
  /** Called for each place whose blobs are left out: it is away, or did not answer in time. */
  readonly onUnanswered?: ((place: string) => void) | undefined;
}

export interface CopyOptions extends StoreCallOptions {
  /** The copy that is copied; default: any other. */
  readonly from?: string | undefined;
}

export interface BlobDigest {
  readonly size: number;
  readonly crc32c: number;
}

export interface Store {
  readonly kind: 'memory' | 'file' | 'peers' | 's3';
  /** For messages: `file:/data/x`, `peers:`. */
  readonly url: string;
  /** Whole or not at all, and durable when it resolves. */
  put(name: string, source: BlobSource | Uint8Array, options?: PutOptions): Promise<PutResult>;
  /** Without a place: the nearest copy that answers, going on with another one when it breaks. */
  read(name: string, options?: ReadOptions): AsyncIterable<Uint8Array>;
  /**
   * Fills memory with the bytes from `start` on, where a store can do that without a detour. After a failure a read may
   * still be under way: see `onIdle`.
   */
  readInto?(name: string, into: Uint8Array, options?: ReadIntoOptions): Promise<void>;
  /** The places that hold a copy at the moment; none when there is no such blob. */
  locate(name: string, options?: StoreCallOptions): Promise<readonly string[]>;
  stat(name: string, options?: PlaceOptions): Promise<BlobInfo | undefined>;
  /** Size and sum of a copy as it is read from where it lies. */
  digest(name: string, options?: PlaceOptions): Promise<BlobDigest>;
  /** The union over all places, each name once, in any order. */
  list(prefix?: string, options?: BlobListOptions): AsyncIterable<BlobInfo>;
  /** All copies that can be reached, or the one of a place. What is not there is removed already. */
  remove(name: string, options?: PlaceOptions): Promise<void>;
  /** One more copy, at the place `to`. A store of one place refuses. */
  copy(name: string, to: string, options?: CopyOptions): Promise<void>;
  /** Removes what is left of uploads that nobody will finish; tells how many. */
  sweep(options?: { readonly olderThanMs?: number | undefined }): Promise<number>;
  close(): Promise<void>;
}
