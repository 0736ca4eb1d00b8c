/**
 * gRPC's framing: each message has a head of five bytes, a flag for compression and the length. A message whose length
 * exceeds the limit is refused when its head arrives; those of all calls together may not exceed the server's budget.
 */
import { promisify } from 'node:util';
import { gunzip, inflate } from 'node:zlib';
import { lengthOf, type Parts } from '../messages/wire-writer.js';
import { ServingError } from '../status.js';

const HEAD_BYTES = 5;

/** Compressions that requests may have. */
const DECODERS = { gzip: promisify(gunzip), deflate: promisify(inflate) } as const;
export const ACCEPTED_ENCODINGS = ['identity', ...Object.keys(DECODERS)].join(',');

/** The bytes of requests that the server holds: those that arrive, and those that are answered. */
export class ByteBudget {
  readonly #max: number;
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get used(): number {
    return this.#used;
  }

  take(bytes: number): void {
    if (this.#used + bytes > this.#max)
      throw new ServingError(
        'RESOURCE_EXHAUSTED',
        `The server already holds ${this.#used} bytes of requests; try again later`,
      );
    this.#used += bytes;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }
}

export interface Frame {
  readonly isCompressed: boolean;
  readonly bytes: Buffer;
}

/** Divides what a stream receives into messages. */
export class FrameReader {
  readonly #maxBytes: number;
  readonly #budget: ByteBudget;
  readonly #onFrame: (frame: Frame) => void;
  readonly #chunks: Buffer[] = [];
  #held = 0;
  /** The length of the message whose head has arrived. */
  #length: number | undefined;
  #isCompressed = false;

  constructor(maxBytes: number, budget: ByteBudget, onFrame: (frame: Frame) => void) {
    this.#maxBytes = maxBytes;
    this.#budget = budget;
    this.#onFrame = onFrame;
  }

  /** Whether a message has arrived in part. */
  get isInside(): boolean {
    return this.#held > 0 || this.#length !== undefined;
  }

  push(chunk: Buffer): void {
    this.#budget.take(chunk.length);
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    for (;;) {
      if (this.#length === undefined) {
        if (this.#held < HEAD_BYTES) return;
        this.#readHead(this.#shift(HEAD_BYTES));
      }
      const length = this.#length as unknown as number;
      if (this.#held < length) return;
      this.#length = undefined;
      this.#onFrame({ isCompressed: this.#isCompressed, bytes: this.#shift(length) });
    }
  }

  /** Drops what has arrived in part. */
  close(): void {
    this.#budget.give(this.#held);
    this.#held = 0;
    this.#chunks.length = 0;
  }

  #readHead(head: Buffer): void {
    const length = head.readUInt32BE(1);
    if (length > this.#maxBytes)
      throw new ServingError(
        'RESOURCE_EXHAUSTED',
        `Received message larger than max (${length} vs. ${this.#maxBytes})`,
        { hint: 'Send fewer examples per request, or raise the limit of the server.' },
      );
    this.#length = length;
    this.#isCompressed = head[0] !== 0;
  }

  #shift(size: number): Buffer {
    const first = this.#chunks[0];
    if (size > 0 && (!first || first.length < size)) {
      const joined = Buffer.concat(this.#chunks);
      this.#chunks.length = 0;
      this.#chunks.push(joined);
    }
    const whole = this.#chunks[0] ?? Buffer.alloc(0);
    if (whole.length > size) this.#chunks[0] = whole.subarray(size);
    else this.#chunks.shift();
    this.#held -= size;
    this.#budget.give(size);
    return whole.subarray(0, size);
  }
}

/** No more than this expands from one byte of zlib's format. */
const MAX_EXPANSION = 1032;

/** What a message may expand to: gzip ends with the size, modulo 4 GiB. */
function expandedBytes(bytes: Buffer, encoding: string, maxBytes: number): number {
  const isSizeKnown = encoding === 'gzip' && bytes.length > 4;
  const most = isSizeKnown ? bytes.readUInt32LE(bytes.length - 4) : bytes.length * MAX_EXPANSION;
  return Math.max(1, Math.min(maxBytes, most));
}

/** Undoes the compression of a message; what it expands to has the same limit, and counts in the budget meanwhile. */
export async function decompress(
  bytes: Buffer,
  encoding: string,
  maxBytes: number,
  budget: ByteBudget,
): Promise<Buffer> {
  const decode = DECODERS[encoding as keyof typeof DECODERS];
  if (!decode)
    throw new ServingError('INTERNAL', `A message is compressed, but grpc-encoding is ${encoding}`);
  const maxOutputLength = expandedBytes(bytes, encoding, maxBytes);
  budget.take(maxOutputLength);
  try {
    return await decode(bytes, { maxOutputLength });
  } catch (cause) {
    const isTooLarge = (cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    throw isTooLarge
      ? new ServingError('RESOURCE_EXHAUSTED', `Decompressed message larger than max ${maxBytes}`, { cause })
      : new ServingError('INTERNAL', `A message is not ${encoding}`, { cause });
  } finally {
    budget.give(maxOutputLength);
  }
}

export const isKnownEncoding = (encoding: string): boolean => encoding === 'identity' || encoding in DECODERS;

/** A message with its head, in one buffer. */
export function frameOf(parts: Parts): Buffer {
  const length = lengthOf(parts);
  const frame = Buffer.allocUnsafe(HEAD_BYTES + length);
  frame[0] = 0;
  frame.writeUInt32BE(length, 1);
  let at = HEAD_BYTES;
  for (const part of parts) {
    frame.set(part, at);
    at += part.length;
  }
  return frame;
}
