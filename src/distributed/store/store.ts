/**
 * The store interface: named blobs that are written atomically. One interface for a directory, the disks of all tasks,
 * a bucket and memory, so that one commit protocol works on all of them.
 *
 * A blob is written as a stream (a bucket's multipart upload) and published atomically: it replaces an existing blob,
 * or only fills an unused name (`ifAbsent`, a bucket's conditional put). The parts of a name are separated by slashes.
 * In a store with several places each has a name such as `ps/0`.
 */

import type { KeptFiles } from './kept-files.js';

/**
 * Returns the bytes from an offset on; called again, with any offset, after a broken connection or for another copy. A
 * chunk is valid until the next one is requested: then its memory may be reused. Chunks of some MiB work best.
 */
export type BlobSource = (offset: number) => AsyncIterable<Uint8Array>;

/** The name of the place in a store with a single one. */
export const HERE = 'here';

export interface StoreCallOptions {
  readonly signal?: AbortSignal;
  /** The longest time without progress. */
  readonly timeoutMs?: number;
}

export interface BlobInfo {
  readonly name: string;
  readonly size: number;
  readonly modifiedMs: number;
  /** The places with a copy of this size. */
  readonly places: readonly string[];
}

/** The process whose order is executed. Orders of an incarnation that was replaced are refused. */
export interface OrderedBy {
  readonly task: string;
  readonly incarnation: number;
  readonly nonce: string;
}

export interface PutOptions extends StoreCallOptions {
  /** If known: free space is checked before anything is written. */
  readonly size?: number;
  /** Returns the crc32c of the complete blob after the last chunk of a pass; default: the store computes it. */
  readonly crc32c?: () => number;
  /** Read every byte back while writing, in places that support it; a mismatch is an error. Default: false. */
  readonly readBack?: boolean;
  /** A chunk stays valid until the chunk after the next one is requested, which avoids copies. Default: false. */
  readonly lasting?: boolean;
  /** The name was never used before: do not look for old copies to replace. Default: false. */
  readonly isNew?: boolean;
  /** Do not replace an existing blob. Default: false. */
  readonly ifAbsent?: boolean;
  /** `replicated`: here and in `replicas` other places. `everywhere`: in all places. Default: `replicated`. */
  readonly copies?: 'replicated' | 'everywhere';
  /** The task that ordered the write; default: none. */
  readonly orderedBy?: OrderedBy;
}

export interface PutResult {
  /** False when `ifAbsent` found an existing blob. */
  readonly published: boolean;
  readonly size: number;
  readonly crc32c: number;
  /** The places with a copy. */
  readonly places: readonly string[];
  /** The number of requested copies that could not be made. */
  readonly shortfall: number;
  /** The places that have read their copy back. */
  readonly readBack?: readonly string[];
}

export interface StoreReadOptions extends StoreCallOptions {
  readonly start?: number;
  /** Exclusive; default: the end of the blob. */
  readonly end?: number;
  /** Use the copy at this place only. */
  readonly place?: string;
}

export interface ReadIntoOptions extends StoreCallOptions {
  readonly start?: number;
  /** A cache that keeps files open for later reads; default: none. */
  readonly kept?: KeptFiles;
  /** Called when nothing writes to the memory any more: after an aborted read, that may be much later. */
  readonly onIdle?: () => void;
  /** Use the copy at this place only. */
  readonly place?: string;
}

export interface PlacedCallOptions extends StoreCallOptions {
  /** Use the copy at this place only. */
  readonly place?: string;
}

export interface BlobListOptions extends StoreCallOptions {
  /** Whether a blob or folder is not needed. A hint: the store may list it anyway. */
  readonly skip?: (name: string) => boolean;
  /** Called for each place that is unreachable or did not answer in time: its blobs are missing from the list. */
  readonly onUnanswered?: (place: string) => void;
}

export interface CopyOptions extends StoreCallOptions {
  /** The place of the source copy; default: any. */
  readonly from?: string;
}

export interface AddCopiesOptions extends StoreCallOptions {
  /** The places that have a copy. */
  readonly holders: readonly string[];
  readonly wanted: number;
  /** A new copy with another checksum is removed. */
  readonly crc32c: number;
}

export interface BlobDigest {
  readonly size: number;
  readonly crc32c: number;
}

export interface Store {
  readonly kind: 'memory' | 'file' | 'peers';
  /** For messages: `file:/data/x`, `peers:`. */
  readonly url: string;
  /** Atomic, and durable when it resolves. */
  put(name: string, source: BlobSource | Uint8Array, options?: PutOptions): Promise<PutResult>;
  /** Without a place: reads the nearest copy that answers, and continues with another one when that fails. */
  read(name: string, options?: StoreReadOptions): AsyncIterable<Uint8Array>;
  /**
   * Fills memory with the bytes from `start` on, in stores that can do so without copying. After a failure a read may
   * still be running: see `onIdle`.
   */
  readInto?(name: string, into: Uint8Array, options?: ReadIntoOptions): Promise<void>;
  /** The places that currently have a copy; empty when the blob does not exist. */
  locate(name: string, options?: StoreCallOptions): Promise<readonly string[]>;
  stat(name: string, options?: PlacedCallOptions): Promise<BlobInfo | undefined>;
  /** Size and crc32c of a copy, computed from its bytes. */
  digest(name: string, options?: PlacedCallOptions): Promise<BlobDigest>;
  /** The union over all places, each name once, in any order. */
  list(prefix?: string, options?: BlobListOptions): AsyncIterable<BlobInfo>;
  /** Removes all reachable copies, or that of one place. Succeeds when the blob does not exist. */
  remove(name: string, options?: PlacedCallOptions): Promise<void>;
  /** Makes another copy, at the place `to`. Not supported by stores with a single place. */
  copy(name: string, to: string, options?: CopyOptions): Promise<void>;
  /**
   * Makes copies at further places, on other hosts first, until there are `wanted` or no place can take one; resolves with
   * all places. Only in stores with several places.
   */
  addCopies?(name: string, options: AddCopiesOptions): Promise<readonly string[]>;
  /** Removes abandoned uploads; returns how many. */
  sweep(options?: { readonly olderThanMs?: number | undefined }): Promise<number>;
  close(): Promise<void>;
}
