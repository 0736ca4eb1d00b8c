/**
 * Finds ranges of records in files of lines, CSV and records of one length, without TensorFlow. Ranges of text are bounded
 * in bytes too: TensorFlow reads one in a piece.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { PassThrough, pipeline } from 'node:stream';
import { throwIfAborted } from '../../async/deadline.js';
import { ShoalError } from '../../errors/errors.js';
import { type Compression, decompressor } from '../../formats/tfrecord/compression.js';
import type { RangeScanOptions, ScannedRanges, Shard } from '../dataset/record-ranges.js';
import { unreadable } from './record-scan.js';

const CHUNK_BYTES = 256 << 10;
const MOST_BYTES = 8 << 20;
const NEWLINE = 10;
const RETURN = 13;
const QUOTE = 34;

export const COMPRESSED = 'it is compressed';
const LINES_IN_RECORDS = 'records of it have ends of lines in them';

/** The bytes of a file as it is or as it was before its compression. */
async function* bytesOf(
  file: string,
  compression: Compression,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  const last = compression === 'none' ? new PassThrough() : decompressor(compression);
  // Either's error shows up in the iteration below.
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

/** Cuts a file into ranges as the ends of its records become known. */
class Cutter {
  readonly #ranges: { offset: number; bytes: number; records: number }[] = [];
  readonly #most: number;
  #begin: number;
  #records = 0;
  #all = 0;

  constructor(most: number, begin = 0) {
    this.#most = most;
    this.#begin = begin;
  }

  /** What was before is of no record. */
  beginAt(offset: number): void {
    this.#begin = offset;
  }

  record(end: number): void {
    this.#records += 1;
    this.#all += 1;
    if (this.#records >= this.#most || end - this.#begin >= MOST_BYTES) this.#cut(end);
  }

  #cut(end: number): void {
    if (this.#records > 0)
      this.#ranges.push({ offset: this.#begin, bytes: end - this.#begin, records: this.#records });
    this.#begin = end;
    this.#records = 0;
  }

  ranges(file: string, size: number): Shard[] {
    this.#cut(size);
    return this.#ranges.map((range) => ({ file, ...range }));
  }

  /** All records as one range, to be read by what reads whole files. */
  whole(file: string): Shard[] {
    return this.#all === 0 ? [] : [{ file, offset: 0, records: this.#all }];
  }
}

export interface LineScanOptions extends RangeScanOptions {
  readonly compression?: Compression | undefined;
  /** Whether a line is a record; each is when left out. Bytes are told as characters of their numbers. */
  readonly isRecord?: ((line: string) => boolean) | undefined;
}

/** Files whose records are lines. */
export async function scanLines(file: string, options: LineScanOptions): Promise<ScannedRanges> {
  const { compression = 'none', isRecord, rangeRecords, signal } = options;
  const cutter = new Cutter(rangeRecords);
  let rest: Buffer[] = [];
  let size = 0;
  const line = (end: number, parts: readonly Buffer[]) => {
    if (!isRecord || isRecord(Buffer.concat(parts).toString('latin1'))) cutter.record(end);
  };
  for await (const chunk of bytesOf(file, compression, signal)) {
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
    ? { ranges: cutter.ranges(file, size) }
    : { ranges: cutter.whole(file), whole: COMPRESSED };
}

export interface CsvScanOptions extends RangeScanOptions {
  readonly compression?: Compression | undefined;
  readonly header: boolean;
  readonly delimiter: string;
  readonly quotes: boolean;
}

/** Where in a record of CSV a byte is. */
type Place = 'field' | 'begin' | 'quoted' | 'quote';

/** CSV files. One with a record of several lines is one range: TensorFlow takes ranges apart by lines. */
export async function scanCsv(file: string, options: CsvScanOptions): Promise<ScannedRanges> {
  const { compression = 'none', header, quotes, rangeRecords, signal } = options;
  const delimiter = options.delimiter.charCodeAt(0);
  const cutter = new Cutter(rangeRecords);
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
    if (isHeader) cutter.beginAt(at);
    else cutter.record(at);
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
  for await (const chunk of bytesOf(file, compression, signal)) {
    for (let i = 0; i < chunk.length; i++) take(chunk[i] as number, size + i + 1);
    size += chunk.length;
  }
  if (ended < size) end(size);
  if (compression !== 'none') return { ranges: cutter.whole(file), whole: COMPRESSED };
  return isLines
    ? { ranges: cutter.ranges(file, size) }
    : { ranges: cutter.whole(file), whole: LINES_IN_RECORDS };
}

export interface FixedScanOptions extends RangeScanOptions {
  readonly compression?: Compression | undefined;
  readonly recordBytes: number;
  readonly headerBytes: number;
  readonly footerBytes: number;
}

/** Files of records of one length. */
export async function scanFixed(file: string, options: FixedScanOptions): Promise<ScannedRanges> {
  const { compression = 'none', recordBytes, headerBytes, footerBytes, rangeRecords, signal } = options;
  const size = await sizeOf(file, compression, signal);
  const records = (size - headerBytes - footerBytes) / recordBytes;
  if (!Number.isInteger(records) || records < 0) {
    throw new ShoalError(
      'SHOAL_CORRUPT',
      `${file}: ${size} bytes are not ${headerBytes}, whole records of ${recordBytes}, and ${footerBytes}`,
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
      // Reading says what is the matter.
    }
  }
  for await (const chunk of bytesOf(file, compression, signal)) size += chunk.length;
  return size;
}
