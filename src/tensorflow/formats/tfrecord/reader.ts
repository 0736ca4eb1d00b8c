/**
 * Reads the records of TFRecord files or streams in bounded memory, one by one or in batches (the records of one
 * chunk). Batches avoid the cost of a promise per record.
 */
import { createReadStream } from 'node:fs';
import { PassThrough, pipeline, Readable } from 'node:stream';
import { throwIfAborted } from '../../../base/async/deadline.js';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { type Compression, decompressor } from './compression.js';
import { type DecodedRecord, type DecoderOptions, RecordDecoder } from './decoder.js';

const CHUNK_BYTES = 256 << 10;

export interface TFRecordReadOptions extends Partial<DecoderOptions> {
  /** The compression of the file; default: 'none'. */
  readonly compression?: Compression;
  /** Called at the end with the number of skipped corrupt records, if any; default: none. */
  readonly onSkipped?: (count: number) => void;
  /** Cancels the read; default: none. */
  readonly signal?: AbortSignal;
}

/** A path, or a stream of bytes. */
export type TFRecordSource = string | AsyncIterable<Uint8Array>;

export async function* readTFRecordBatches(
  source: TFRecordSource,
  options: TFRecordReadOptions = {},
): AsyncGenerator<DecodedRecord[]> {
  const name = options.source ?? (typeof source === 'string' ? source : 'the stream');
  const decoder = new RecordDecoder({ ...options, source: name });
  for await (const chunk of chunksOf(source, name, options)) {
    throwIfAborted(`reading ${name}`, options.signal);
    const batch = [...decoder.push(chunk)];
    if (batch.length > 0) yield batch;
  }
  decoder.end();
  if (decoder.skipped > 0) options.onSkipped?.(decoder.skipped);
}

export async function* readTFRecords(
  source: TFRecordSource,
  options: TFRecordReadOptions = {},
): AsyncGenerator<Uint8Array> {
  for await (const batch of readTFRecordBatches(source, options)) {
    for (const record of batch) yield record.data;
  }
}

async function* chunksOf(
  source: TFRecordSource,
  name: string,
  options: TFRecordReadOptions,
): AsyncGenerator<Uint8Array> {
  const compression = options.compression ?? 'none';
  const raw =
    typeof source === 'string'
      ? createReadStream(source, { highWaterMark: CHUNK_BYTES })
      : Readable.from(source);
  const last =
    compression === 'none' ? new PassThrough({ highWaterMark: CHUNK_BYTES }) : decompressor(compression);
  // The pipeline destroys both if either fails; the error surfaces in the iteration below.
  pipeline(raw, last, () => undefined);
  try {
    for await (const chunk of last) yield chunk as Uint8Array;
  } catch (cause) {
    throw readError(cause, name, compression);
  } finally {
    raw.destroy();
    last.destroy();
  }
}

function readError(cause: unknown, name: string, compression: Compression): unknown {
  if (cause instanceof ShoalError) return cause;
  const { code } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new ShoalError('SHOAL_NOT_FOUND', `there is no file ${name}`, { cause });
  if (code?.startsWith('Z_') || code === 'ERR_STREAM_PREMATURE_CLOSE') {
    return new ShoalError(
      'SHOAL_CORRUPT',
      `${name} cannot be decompressed as ${compression}: ${messageOf(cause)}`,
      {
        hint: 'the file is truncated or corrupt, or has another compression',
        cause,
      },
    );
  }
  return new ShoalError('SHOAL_UNREACHABLE', `${name} cannot be read: ${messageOf(cause)}`, { cause });
}
