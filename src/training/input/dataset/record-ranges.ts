/** Ranges of records in files: what the chief finds by scanning, and what a worker reads. */
import type { Output } from '../../../tensorflow/graph/operation.js';

/** A range of a file. */
export interface Shard {
  readonly file: string;
  readonly offset: number;
  readonly records: number;
  /** Its length in bytes, if the format needs it. */
  readonly bytes?: number;
  /** The size of the file in bytes. */
  readonly size?: number;
}

/** A range of records, in the graph. */
export interface RangeElement {
  readonly file: Output<'string'>;
  readonly offset: Output<'int64'>;
  readonly records: Output<'int64'>;
}

/** Includes the bytes of the range and those behind it in the file; both are 0 if the whole file is read. */
export interface ByteRange extends RangeElement {
  readonly bytes: Output<'int64'>;
  readonly behind: Output<'int64'>;
}

export interface RangeScanOptions {
  /** The maximum number of records per range. */
  readonly rangeRecords: number;
  readonly signal?: AbortSignal;
}

export interface ScannedRanges {
  /** In order; none overlaps another. */
  readonly ranges: readonly Shard[];
  /** Why the file cannot be split, if so. */
  readonly whole?: string;
}

/** How to read and scan ranges of a file format; `D` is a dataset of its records. */
export interface RangeFormat<D> {
  /** The records of a range, possibly followed by others that are ignored. */
  read(range: ByteRange): D;
  scan(file: string, options: RangeScanOptions): Promise<ScannedRanges>;
}

export interface RecordFiles<D> extends RangeFormat<D> {
  /** File names or patterns. */
  readonly names: readonly string[];
  /** Whether the files are shuffled. */
  readonly isShuffled: boolean;
}
