/**
 * Writes event files, which TensorBoard reads: TFRecords of Event messages, the first of which has the version.
 *
 * Writing never blocks and never throws I/O errors: events are buffered, and written when the buffer is large enough or
 * some time has passed. I/O errors are thrown by the next flush() or close().
 */
import { type FileHandle, open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import { EventSchema } from '../../../base/proto/generated/event_pb.js';
import { encodeRecord } from '../tfrecord/record.js';

export const EVENT_FILE_VERSION = 'brain.Event:2';

export interface EventWriterOptions {
  readonly directory: string;
  /** The suffix of the file name, such as `.v2`; default: none. */
  readonly suffix?: string;
  /** The host name in the file name; default: that of this machine. */
  readonly host?: string;
  /** Distinguishes files that are created within one second; default: the process id and a time in nanoseconds. */
  readonly discriminator?: string;
  /** Flushes when this many bytes are buffered; default: 1 MiB. */
  readonly flushBytes?: number;
  /** Flushes when the oldest event has waited this long; default: 10 s. */
  readonly flushMs?: number;
  /** The time in milliseconds since 1970; default: `Date.now`. */
  readonly now?: () => number;
}

export type EventInput = MessageInitShape<typeof EventSchema>;

const FLUSH_BYTES = 1 << 20;
const FLUSH_MS = 10_000;

/** `events.out.tfevents.<seconds>.<host>.<discriminator><suffix>` */
export function eventFileName(seconds: number, host: string, discriminator: string, suffix = ''): string {
  const time = String(Math.floor(seconds)).padStart(10, '0');
  return `events.out.tfevents.${time}.${host}.${discriminator}${suffix}`;
}

export class EventFileWriter {
  readonly path: string;
  readonly #directory: string;
  readonly #flushBytes: number;
  readonly #flushMs: number;
  readonly #now: () => number;
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #file: FileHandle | undefined;
  /** The chain of flushes. It never rejects: a failure is kept in #failure. */
  #writing: Promise<void> = Promise.resolve();
  #failure: ShoalError | undefined;
  #closed = false;

  constructor(options: EventWriterOptions) {
    this.#now = options.now ?? Date.now;
    this.#flushBytes = options.flushBytes ?? FLUSH_BYTES;
    this.#flushMs = options.flushMs ?? FLUSH_MS;
    this.#directory = options.directory;
    const seconds = this.#now() / 1000;
    const discriminator = options.discriminator ?? `${process.pid}.${process.hrtime.bigint()}`;
    this.path = join(
      options.directory,
      eventFileName(seconds, options.host ?? hostname(), discriminator, options.suffix),
    );
    this.write({ what: { case: 'fileVersion', value: EVENT_FILE_VERSION } });
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Adds an event. Its default time is the time of the call. */
  write(event: EventInput): void {
    if (this.#closed) throw new ShoalError('SHOAL_DISPOSED', `the event file ${this.path} is closed`);
    const message = create(EventSchema, event);
    if (message.wallTime === 0) message.wallTime = this.#now() / 1000;
    const record = encodeRecord(toBinary(EventSchema, message));
    this.#pending.push(record);
    this.#pendingBytes += record.length;
    if (this.#pendingBytes >= this.#flushBytes) this.#startFlush();
    else if (this.#timer === undefined) {
      this.#timer = setTimeout(() => this.#startFlush(), this.#flushMs);
      this.#timer.unref();
    }
  }

  /** Resolves when all events so far are in the file. */
  async flush(): Promise<void> {
    this.#startFlush();
    await this.#writing;
    if (this.#failure) throw this.#failure;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#startFlush();
    await this.#writing;
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
    if (this.#failure) throw this.#failure;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #startFlush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending.length === 0) return;
    const chunk = Buffer.concat(this.#pending, this.#pendingBytes);
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#writing = this.#writing.then(() => this.#append(chunk));
  }

  async #append(chunk: Uint8Array): Promise<void> {
    // After a failure the file may end within a record: later events would be unreadable.
    if (this.#failure) return;
    try {
      if (!this.#file) {
        await makeDirectory(this.#directory);
        this.#file = await open(this.path, 'a');
      }
      await this.#file.appendFile(chunk);
    } catch (cause) {
      const full = (cause as NodeJS.ErrnoException).code === 'ENOSPC';
      const code = full ? 'SHOAL_NO_SPACE' : 'SHOAL_UNREACHABLE';
      this.#failure = new ShoalError(
        code,
        `the event file ${this.path} cannot be written: ${messageOf(cause)}`,
        {
          hint: 'later events are lost; training is not affected',
          cause,
        },
      );
    }
  }
}
