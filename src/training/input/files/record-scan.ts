/**
 * Finds the offsets of records in TFRecord files, and corrupt ones, without TensorFlow: to read ranges of files, to
 * skip corrupt records, and to report where a file is damaged.
 *
 * Uncompressed files are scanned frame by frame; without `verify` the data of a record is skipped. After a length with
 * a wrong checksum the scan searches for the next frame with a correct one.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { throwIfAborted } from '../../../base/async/deadline.js';
import { crc32c, maskCrc } from '../../../base/bytes/crc32c.js';
import { isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { Compression } from '../../../tensorflow/formats/tfrecord/compression.js';
import { readTFRecordBatches } from '../../../tensorflow/formats/tfrecord/reader.js';
import { RECORD_FOOTER_BYTES, RECORD_HEADER_BYTES } from '../../../tensorflow/formats/tfrecord/record.js';

/** Consecutive records of a file. */
export interface RecordRange {
  readonly file: string;
  /** The offset of the first record's frame. */
  readonly offset: number;
  readonly records: number;
}

export interface CorruptPlace {
  readonly file: string;
  /** The offset of the frame; for a compressed file, in the decompressed data. */
  readonly offset: number;
  readonly reason: string;
}

export interface FileScan {
  readonly file: string;
  /** In order, disjoint and without corrupt records. */
  readonly ranges: readonly RecordRange[];
  readonly records: number;
  readonly corrupt: readonly CorruptPlace[];
  /** Intact records that cannot be read: those behind a corrupt one in a compressed file. */
  readonly unreachable: number;
}

export interface ScanOptions {
  /** The compression of the files; default: 'none'. */
  readonly compression?: Compression;
  /** Whether to read and check all data, not only lengths; default: true. */
  readonly verify?: boolean;
  /** The maximum number of records per range; default: unlimited. */
  readonly rangeRecords?: number;
  /** Cancels the scan; default: none. */
  readonly signal?: AbortSignal;
}

const WINDOW_BYTES = 1 << 20;
const DATA = 'the data of a record does not match its checksum';
const LENGTH = 'the length of a record does not match its checksum';
const TRUNCATED = 'the file ends within a record';

export async function scanFile(file: string, options: ScanOptions = {}): Promise<FileScan> {
  if (options.compression !== undefined && options.compression !== 'none')
    return scanCompressed(file, options);
  const handle = await openFile(file);
  try {
    return await scanPlain(file, new Window(handle, (await handle.stat()).size), options);
  } finally {
    await handle.close();
  }
}

/** The error for a missing or unreadable file. */
export function unreadable(file: string, cause: unknown): ShoalError {
  const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
  return new ShoalError(
    missing ? 'SHOAL_NOT_FOUND' : 'SHOAL_UNREACHABLE',
    missing ? `there is no file ${file}` : `${file} cannot be read: ${messageOf(cause)}`,
    { cause },
  );
}

async function openFile(file: string): Promise<FileHandle> {
  try {
    return await open(file);
  } catch (cause) {
    throw unreadable(file, cause);
  }
}

/** Gathers ranges as records are found. */
class Ranges {
  readonly found: RecordRange[] = [];
  readonly #file: string;
  readonly #most: number;
  #offset = 0;
  #records = 0;

  constructor(file: string, most = Number.POSITIVE_INFINITY) {
    this.#file = file;
    this.#most = most;
  }

  add(offset: number): void {
    if (this.#records >= this.#most) this.split();
    if (this.#records === 0) this.#offset = offset;
    this.#records += 1;
  }

  /** Ends the current range. */
  split(): void {
    if (this.#records > 0)
      this.found.push({ file: this.#file, offset: this.#offset, records: this.#records });
    this.#records = 0;
  }

  get records(): number {
    return this.found.reduce((sum, { records }) => sum + records, 0);
  }
}

async function scanPlain(file: string, window: Window, options: ScanOptions): Promise<FileScan> {
  const { verify = true, rangeRecords, signal } = options;
  const ranges = new Ranges(file, rangeRecords);
  const corrupt: CorruptPlace[] = [];
  const { size } = window;
  for (let at = 0; at < size; ) {
    if (size - at < RECORD_HEADER_BYTES) {
      corrupt.push({ file, offset: at, reason: TRUNCATED });
      break;
    }
    if (!window.holds(at, RECORD_HEADER_BYTES)) {
      throwIfAborted(`scanning ${file}`, signal);
      await window.load(at, RECORD_HEADER_BYTES);
    }
    const length = window.lengthAt(at);
    if (length === undefined) {
      corrupt.push({ file, offset: at, reason: LENGTH });
      ranges.split();
      at = await nextFrame(window, at + 1, signal);
      continue;
    }
    const end = at + RECORD_HEADER_BYTES + length + RECORD_FOOTER_BYTES;
    if (end > size) {
      corrupt.push({ file, offset: at, reason: TRUNCATED });
      break;
    }
    if (verify && !window.holds(at, end - at)) {
      throwIfAborted(`scanning ${file}`, signal);
      await window.load(at, end - at);
    }
    if (!verify || window.dataMatches(at, length)) ranges.add(at);
    else {
      corrupt.push({ file, offset: at, reason: DATA });
      ranges.split();
    }
    at = end;
  }
  ranges.split();
  return { file, ranges: ranges.found, records: ranges.records, corrupt, unreachable: 0 };
}

/** The next offset with a correct length checksum, or the end of the file. */
async function nextFrame(window: Window, from: number, signal?: AbortSignal): Promise<number> {
  for (let at = from; at + RECORD_HEADER_BYTES + RECORD_FOOTER_BYTES <= window.size; at++) {
    if (!window.holds(at, RECORD_HEADER_BYTES)) {
      throwIfAborted('looking for the next record', signal);
      await window.load(at, RECORD_HEADER_BYTES);
    }
    // Nearly all offsets have a length beyond the end of the file, which is cheaper to check than the checksum.
    const length = window.rawLengthAt(at);
    if (at + RECORD_HEADER_BYTES + length + RECORD_FOOTER_BYTES > window.size) continue;
    if (window.lengthAt(at) !== undefined) return at;
  }
  return window.size;
}

/** A section of a file in memory. */
class Window {
  readonly size: number;
  readonly #handle: FileHandle;
  #buffer = Buffer.allocUnsafe(WINDOW_BYTES);
  #view = new DataView(this.#buffer.buffer, this.#buffer.byteOffset, this.#buffer.length);
  #start = 0;
  #end = 0;

  constructor(handle: FileHandle, size: number) {
    this.#handle = handle;
    this.size = size;
  }

  holds(at: number, count: number): boolean {
    return at >= this.#start && at + count <= this.#end;
  }

  async load(at: number, count: number): Promise<void> {
    if (count > this.#buffer.length) {
      this.#buffer = Buffer.allocUnsafe(count);
      this.#view = new DataView(this.#buffer.buffer, this.#buffer.byteOffset, count);
    }
    this.#start = at;
    this.#end = at;
    while (this.#end - at < count) {
      const used = this.#end - at;
      const { bytesRead } = await this.#handle.read(
        this.#buffer,
        used,
        this.#buffer.length - used,
        this.#end,
      );
      if (bytesRead === 0)
        throw new ShoalError('SHOAL_CORRUPT', 'the file became shorter while it was scanned');
      this.#end += bytesRead;
    }
  }

  rawLengthAt(at: number): number {
    const place = at - this.#start;
    return this.#view.getUint32(place, true) + this.#view.getUint32(place + 4, true) * 2 ** 32;
  }

  /** The length of the record at an offset; undefined if its checksum is wrong. */
  lengthAt(at: number): number | undefined {
    const place = at - this.#start;
    const known = this.#view.getUint32(place + 8, true);
    if (known !== maskCrc(crc32c(this.#buffer.subarray(place, place + 8)))) return undefined;
    return this.rawLengthAt(at);
  }

  dataMatches(at: number, length: number): boolean {
    const from = at - this.#start + RECORD_HEADER_BYTES;
    const data = this.#buffer.subarray(from, from + length);
    return this.#view.getUint32(from + length, true) === maskCrc(crc32c(data));
  }
}

/** Compressed files can only be read from the beginning: records behind a corrupt one are unreachable. */
async function scanCompressed(file: string, options: ScanOptions): Promise<FileScan> {
  const { compression, rangeRecords, signal } = options;
  const ranges = new Ranges(file, rangeRecords);
  const corrupt: CorruptPlace[] = [];
  let expected = 0;
  let unreachable = 0;
  try {
    for await (const batch of readTFRecordBatches(file, { compression, onCorrupt: 'skip', signal })) {
      for (const { data, offset } of batch) {
        if (offset !== expected) corrupt.push({ file, offset: expected, reason: DATA });
        if (corrupt.length === 0) ranges.add(offset);
        else unreachable += 1;
        expected = offset + RECORD_HEADER_BYTES + data.length + RECORD_FOOTER_BYTES;
      }
    }
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_CORRUPT')) throw error;
    corrupt.push({ file, offset: expected, reason: error.message.split('\n')[0] as string });
  }
  ranges.split();
  return { file, ranges: ranges.found, records: ranges.records, corrupt, unreachable };
}
