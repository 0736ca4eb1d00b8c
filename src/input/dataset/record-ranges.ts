/** Ranges of records in files: what the chief finds by scanning, and what a worker reads. */
import type { Output } from '../../graph/operation.js';
import type { Dataset } from './dataset.js';

/** A range of a file. */
export interface Shard {
  readonly file: string;
  readonly offset: number;
  readonly records: number;
  /** Its bytes, where the format needs them to read it. */
  readonly bytes?: number | undefined;
  /** The bytes of the whole file. */
  readonly size?: number | undefined;
}

/** Where records lie, in the graph. */
export interface RangeElement {
  readonly file: Output<'string'>;
  readonly offset: Output<'int64'>;
  readonly records: Output<'int64'>;
}

/** The same with its bytes, and those that follow it in the file; of a file that is read as a whole both are 0. */
export interface ByteRange extends RangeElement {
  readonly bytes: Output<'int64'>;
  readonly behind: Output<'int64'>;
}

export interface RangeScanOptions {
  /** The most records in a range. */
  readonly rangeRecords: number;
  readonly signal?: AbortSignal | undefined;
}

export interface ScannedRanges {
  /** In order; none overlaps another. */
  readonly ranges: readonly Shard[];
  /** Why the file is one range, where that does not depend on its size. */
  readonly whole?: string | undefined;
}

/** What is to be known of a format to lease its records. */
export interface RangeFormat<T = unknown> {
  /** The records of a range; what comes behind them is not looked at. */
  read(range: ByteRange): Dataset<T>;
  scan(file: string, options: RangeScanOptions): Promise<ScannedRanges>;
}

export interface RecordFiles<T = unknown> extends RangeFormat<T> {
  /** Names or patterns. */
  readonly names: readonly string[];
  /** Whether the files come in another order each time. */
  readonly isShuffled: boolean;
}
