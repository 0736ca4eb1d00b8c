/**
 * Finds ranges of records in text, CSV and fixed-length files, without TensorFlow. Ranges of text are also limited in
 * bytes: TensorFlow reads each as one string.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { PassThrough, pipeline } from 'node:stream';
import { throwIfAborted } from '../../../base/async/deadline.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { type Compression, decompressor } from '../../../tensorflow/formats/tfrecord/compression.js';
import type { RangeScanOptions, ScannedRanges, Shard } from '../dataset/record-ranges.js';
import { unreadable } from './record-scan.js';

const CHUNK_BYTES = 256 << 10;
const MOST_BYTES = 8 << 20;
const NEWLINE = 10;
const RETURN = 13;
const QUOTE = 34;

export const COMPRESSED = 'it is compressed';
const LINES_IN_RECORDS = 'some of its records contain newlines';

/** The bytes of a file, decompressed. */
export async function* decompressedBytes(
  file: string,
  compression: Compression,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  const last = compression === 'none' ? new PassThrough() : decompressor(compression);
  // Errors of both streams appear in the iteration below.
  pipeline(createReadStream(file, { highWaterMark: CHUNK_BYTES }), last, () => {});
  try {
    for await (const chunk of last) {
      throwIfAborted(`scanning ${file}`, signal);
      yield chunk as Buffer;
    }
  } catch (cause) {
    throw cause instanceof ShoalError ? cause : unreadable(file, cause);
  }
}

/** Splits a file into ranges at the ends of its records. */
class RangeSplitter {
  readonly #ranges: { offset: number; bytes: number; records: number }[] = [];
  readonly #most: number;
  #begin: number;
  #records = 0;
  #all = 0;

  constructor(most: number, begin = 0) {
    this.#most = most;
    this.#begin = begin;
  }

  /** Skips the bytes before the offset. */
  beginAt(offset: number): void {
    this.#begin = offset;
  }

  record(end: number): void {
    this.#records += 1;
    this.#all += 1;
    if (this.#records >= this.#most || end - this.#begin >= MOST_BYTES) this.#split(end);
  }

  #split(end: number): void {
    if (this.#records > 0)
      this.#ranges.push({ offset: this.#begin, bytes: end - this.#begin, records: this.#records });
    this.#begin = end;
    this.#records = 0;
  }

  ranges(file: string, size: number): Shard[] {
    this.#split(size);
    return this.#ranges.map((range) => ({ file, ...range }));
  }

  /** All records as one range, for a reader of whole files. */
  whole(file: string): Shard[] {
    return this.#all === 0 ? [] : [{ file, offset: 0, records: this.#all }];
  }
}

export interface LineScanOptions extends RangeScanOptions {
  readonly compression?: Compression;
  /** Whether a line, decoded as latin1, is a record; default: every line is. */
  readonly isRecord?: (line: string) => boolean;
}

/** Files whose records are lines. */
export async function scanLines(file: string, options: LineScanOptions): Promise<ScannedRanges> {
  const { compression = 'none', isRecord, rangeRecords, signal } = options;
  const splitter = new RangeSplitter(rangeRecords);
  let rest: Buffer[] = [];
  let size = 0;
  const line = (end: number, parts: readonly Buffer[]) => {
    if (!isRecord || isRecord(Buffer.concat(parts).toString('latin1'))) splitter.record(end);
  };
  for await (const chunk of decompressedBytes(file, compression, signal)) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      line(size + at + 1, [...rest, chunk.subarray(from, at)]);
      rest = [];
      from = at + 1;
    }
    if (from < chunk.length) rest.push(chunk.subarray(from));
    size += chunk.length;
  }
  if (rest.length > 0) line(size, rest);
  return compression === 'none'
    ? { ranges: splitter.ranges(file, size) }
    : { ranges: splitter.whole(file), whole: COMPRESSED };
}

export interface CsvScanOptions extends RangeScanOptions {
  readonly compression?: Compression;
  readonly header: boolean;
  readonly delimiter: string;
  readonly quotes: boolean;
}

/** The parser state within a CSV record. */
type Place = 'field' | 'begin' | 'quoted' | 'quote';

/** CSV files. A file with a multi-line record is one range: TensorFlow splits ranges by lines. */
export async function scanCsv(file: string, options: CsvScanOptions): Promise<ScannedRanges> {
  const { compression = 'none', header, quotes, rangeRecords, signal } = options;
  const delimiter = options.delimiter.charCodeAt(0);
  const splitter = new RangeSplitter(rangeRecords);
  let place: Place = 'begin';
  let isHeader = header;
  let isLines = true;
  let wasReturn = false;
  let size = 0;
  /** The end of the last record. */
  let ended = 0;
  const end = (at: number) => {
    ended = at;
    place = 'begin';
    if (isHeader) splitter.beginAt(at);
    else splitter.record(at);
    isHeader = false;
  };
  const take = (byte: number, after: number) => {
    if (wasReturn) {
      wasReturn = false;
      if (byte === NEWLINE) return end(after);
      isLines = false;
      end(after - 1);
    }
    if (place === 'quoted') {
      if (byte === QUOTE) place = 'quote';
      else if (byte === NEWLINE || byte === RETURN) isLines = false;
    } else if (byte === RETURN) wasReturn = true;
    else if (byte === NEWLINE) end(after);
    else if (place === 'quote' && byte === QUOTE) place = 'quoted';
    else if (byte === delimiter) place = 'begin';
    else place = quotes && place === 'begin' && byte === QUOTE ? 'quoted' : 'field';
  };
  for await (const chunk of decompressedBytes(file, compression, signal)) {
    for (let i = 0; i < chunk.length; i++) take(chunk[i] as number, size + i + 1);
    size += chunk.length;
  }
  if (ended < size) end(size);
  if (compression !== 'none') return { ranges: splitter.whole(file), whole: COMPRESSED };
  return isLines
    ? { ranges: splitter.ranges(file, size) }
    : { ranges: splitter.whole(file), whole: LINES_IN_RECORDS };
}

export interface FixedScanOptions extends RangeScanOptions {
  readonly compression?: Compression;
  readonly recordBytes: number;
  readonly headerBytes: number;
  readonly footerBytes: number;
}

/** Files of fixed-length records. */
export async function scanFixed(file: string, options: FixedScanOptions): Promise<ScannedRanges> {
  const { compression = 'none', recordBytes, headerBytes, footerBytes, rangeRecords, signal } = options;
  const size = await sizeOf(file, compression, signal);
  const records = (size - headerBytes - footerBytes) / recordBytes;
  if (!Number.isInteger(records) || records < 0) {
    throw new ShoalError(
      'SHOAL_CORRUPT',
      `${file}: ${size} bytes are not a header of ${headerBytes}, records of ${recordBytes} and a footer of ${footerBytes}`,
    );
  }
  if (compression !== 'none') {
    const ranges = records === 0 ? [] : [{ file, offset: 0, records }];
    return { ranges, whole: COMPRESSED };
  }
  const ranges: Shard[] = [];
  for (let first = 0; first < records; first += rangeRecords) {
    const count = Math.min(rangeRecords, records - first);
    const offset = headerBytes + first * recordBytes;
    const bytes = count * recordBytes;
    ranges.push({ file, offset, records: count, bytes });
  }
  return { ranges };
}

async function sizeOf(
  file: string,
  compression: Compression,
  signal: AbortSignal | undefined,
): Promise<number> {
  let size = 0;
  if (compression === 'none') {
    try {
      return (await stat(file)).size;
    } catch {
      // Reading below gives the error.
    }
  }
  for await (const chunk of decompressedBytes(file, compression, signal)) size += chunk.length;
  return size;
}
