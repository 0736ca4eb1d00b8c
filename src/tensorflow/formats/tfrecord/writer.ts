/**
 * Writes TFRecord files. Records are buffered in chunks of about 100 KB, which avoids a system call and a promise per
 * record; a write waits only if the disk (or the compressor) is slower.
 */
import { createWriteStream } from 'node:fs';
import { PassThrough, type Transform, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { type Compression, compressor } from './compression.js';
import { putRecord, RECORD_FOOTER_BYTES, RECORD_HEADER_BYTES } from './record.js';

const GATHER_BYTES = 256 << 10;

export interface TFRecordWriteOptions {
  /** The compression of the file; default: 'none'. */
  readonly compression?: Compression;
  /** The compression level, 0 to 9; default: that of zlib. */
  readonly level?: number;
}

export class TFRecordWriter {
  readonly #name: string;
  readonly #input: Transform;
  readonly #done: Promise<void>;
  #buffer = Buffer.allocUnsafeSlow(GATHER_BYTES);
  #used = 0;
  #failed: ShoalError | undefined;
  #closed = false;
  #records = 0;

  /** @param target a path, which is overwritten, or a stream, which close() ends. */
  constructor(target: string | Writable, options: TFRecordWriteOptions = {}) {
    this.#name = typeof target === 'string' ? target : 'the stream';
    const compression = options.compression ?? 'none';
    this.#input = compression === 'none' ? new PassThrough() : compressor(compression, options.level);
    const output = typeof target === 'string' ? createWriteStream(target) : target;
    this.#done = pipeline(this.#input, output).catch((cause: unknown) => {
      const full = (cause as NodeJS.ErrnoException).code === 'ENOSPC';
      const code = full ? 'SHOAL_NO_SPACE' : 'SHOAL_UNREACHABLE';
      this.#failed = new ShoalError(code, `${this.#name} cannot be written: ${messageOf(cause)}`, { cause });
    });
  }

  /** The number of records written. */
  get records(): number {
    return this.#records;
  }

  /** Appends a record; its bytes are copied. Await it for backpressure. */
  async write(data: Uint8Array): Promise<void> {
    if (this.#closed) throw new ShoalError('SHOAL_DISPOSED', `${this.#name} is closed`);
    if (this.#failed) throw this.#failed;
    const framed = RECORD_HEADER_BYTES + data.length + RECORD_FOOTER_BYTES;
    this.#records++;
    if (framed > this.#buffer.length - this.#used) {
      await this.#drain();
      if (framed > GATHER_BYTES) {
        const large = Buffer.allocUnsafeSlow(framed);
        putRecord(large, 0, data);
        await this.#send(large);
        return;
      }
    }
    this.#used = putRecord(this.#buffer, this.#used, data);
  }

  async close(): Promise<void> {
    if (this.#closed) return this.#settled();
    this.#closed = true;
    if (!this.#failed) await this.#drain();
    this.#input.end();
    await this.#settled();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #settled(): Promise<void> {
    await this.#done;
    if (this.#failed) throw this.#failed;
  }

  async #drain(): Promise<void> {
    if (this.#used === 0) return;
    const chunk = this.#buffer.subarray(0, this.#used);
    // The stream owns the chunk from here on.
    this.#buffer = Buffer.allocUnsafeSlow(GATHER_BYTES);
    this.#used = 0;
    await this.#send(chunk);
  }

  async #send(chunk: Uint8Array): Promise<void> {
    if (this.#input.write(chunk)) return;
    await Promise.race([new Promise((resolve) => this.#input.once('drain', resolve)), this.#done]);
    if (this.#failed) throw this.#failed;
  }
}
