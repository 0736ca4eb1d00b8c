/**
 * Decodes records from chunks of any size. No I/O: bytes are pushed in, records come out, as views if they are within
 * one chunk.
 *
 * Memory is bounded by the chunks that a record spans; a length is used only if its checksum matches.
 */
import { crc32c, maskCrc } from '../../../base/bytes/crc32c.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { RECORD_FOOTER_BYTES, RECORD_HEADER_BYTES } from './record.js';

export interface DecoderOptions {
  /** The name of the file, for error messages. */
  readonly source: string;
  /**
   * For a record whose data does not match its checksum: throw, or skip and count it. Default: 'throw'. A length that
   * does not match its checksum always throws, because the start of the next record is unknown.
   */
  readonly onCorrupt?: 'throw' | 'skip';
  /** Ignores an incomplete record at the end, as in a file that is being written. Default: false. */
  readonly allowPartialEnd?: boolean;
  /** A longer record is treated as corrupt; default: 1 GiB. */
  readonly maxRecordBytes?: number;
}

export interface DecodedRecord {
  readonly data: Uint8Array;
  /** Where the record's frame starts in the (uncompressed) stream. */
  readonly offset: number;
}

const DEFAULT_MAX_RECORD_BYTES = 2 ** 30;

export class RecordDecoder {
  readonly #source: string;
  readonly #skip: boolean;
  readonly #allowPartialEnd: boolean;
  readonly #maxRecordBytes: number;
  #chunks: Uint8Array[] = [];
  /** The bytes in the chunks. */
  #held = 0;
  /** The number of buffered bytes needed to continue decoding. */
  #wanted = RECORD_HEADER_BYTES;
  /** The stream offset of the first buffered byte. */
  #offset = 0;
  #skipped = 0;

  constructor(options: DecoderOptions) {
    this.#source = options.source;
    this.#skip = options.onCorrupt === 'skip';
    this.#allowPartialEnd = options.allowPartialEnd ?? false;
    this.#maxRecordBytes = options.maxRecordBytes ?? DEFAULT_MAX_RECORD_BYTES;
  }

  /** The number of corrupt records that were skipped. */
  get skipped(): number {
    return this.#skipped;
  }

  /** The offset after the last complete record. */
  get offset(): number {
    return this.#offset;
  }

  /** Adds a chunk, which must not change afterwards; returns the records completed by it. */
  *push(chunk: Uint8Array): Generator<DecodedRecord> {
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    if (this.#held < this.#wanted) return;
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#held);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 0;
    try {
      for (;;) {
        const left = bytes.length - at;
        if (left < RECORD_HEADER_BYTES) {
          this.#wanted = RECORD_HEADER_BYTES;
          return;
        }
        const length = this.#length(bytes, view, at);
        const end = at + RECORD_HEADER_BYTES + length;
        if (bytes.length - end < RECORD_FOOTER_BYTES) {
          this.#wanted = RECORD_HEADER_BYTES + length + RECORD_FOOTER_BYTES;
          return;
        }
        const data = bytes.subarray(at + RECORD_HEADER_BYTES, end);
        const start = at;
        if (view.getUint32(end, true) === maskCrc(crc32c(data))) {
          at = end + RECORD_FOOTER_BYTES;
          yield { data, offset: this.#offset + start };
        } else if (this.#skip) {
          at = end + RECORD_FOOTER_BYTES;
          this.#skipped++;
        } else {
          throw this.#corrupt(start, `the ${length} bytes of a record do not match their checksum`, 'skip');
        }
      }
    } finally {
      this.#chunks = at < bytes.length ? [bytes.subarray(at)] : [];
      this.#held = bytes.length - at;
      this.#offset += at;
    }
  }

  /** Call this at the end of the stream. */
  end(): void {
    if (this.#held === 0 || this.#allowPartialEnd) return;
    if (this.#skip && this.#held >= RECORD_HEADER_BYTES) {
      this.#skipped++;
      return;
    }
    throw this.#corrupt(0, `the stream ends within a record, after ${this.#held} of its bytes`);
  }

  #length(bytes: Uint8Array, view: DataView, at: number): number {
    if (view.getUint32(at + 8, true) !== maskCrc(crc32c(bytes.subarray(at, at + 8)))) {
      throw this.#corrupt(at, 'the length of a record does not match its checksum');
    }
    const length = view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
    if (length > this.#maxRecordBytes) {
      throw this.#corrupt(at, `a record of ${length} bytes exceeds maxRecordBytes (${this.#maxRecordBytes})`);
    }
    return length;
  }

  #corrupt(at: number, what: string, way?: 'skip'): ShoalError {
    return new ShoalError('SHOAL_CORRUPT', `${this.#source}: ${what}, at byte ${this.#offset + at}`, {
      hint:
        way === 'skip'
          ? "pass onCorrupt: 'skip' to leave such records out"
          : 'check that it is a TFRecord file with the given compression',
    });
  }
}
