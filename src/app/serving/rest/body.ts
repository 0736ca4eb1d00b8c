/** Reads the bodies of requests: bounded in bytes each and together, and in time. */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { messageOf } from '../../../base/errors/errors.js';
import { invalidRequest, ServingError, type Status } from '../status.js';

export interface RequestBodyLimits {
  /** Of one body, when it is decompressed. */
  readonly maxBytes: number;
  /** Of all bodies that are being read or answered. */
  readonly maxTotalBytes: number;
  /** Numbers, strings, lists and objects of one body: parsed, the smallest ones take dozens of times their bytes. */
  readonly maxValues: number;
  readonly timeoutMs: number;
}

/** Values of a request or of an answer. */
export const MAX_VALUES = 8 << 20;

export const BODY_LIMITS: RequestBodyLimits = {
  maxBytes: 128 << 20,
  maxTotalBytes: 512 << 20,
  maxValues: MAX_VALUES,
  timeoutMs: 30_000,
};

/** An error with an HTTP code other than that of its status; the connection is closed. */
export class BodyError extends ServingError {
  readonly http: number;

  constructor(http: number, status: Status, message: string, details: { readonly hint?: string } = {}) {
    super(status, message, details);
    this.http = http;
  }
}

export class Bodies {
  readonly #limits: RequestBodyLimits;
  #bytes = 0;

  constructor(limits: RequestBodyLimits) {
    this.#limits = limits;
  }

  /** Reads a body and passes its text to `use`; its bytes count until `use` has ended. */
  async read<T>(request: IncomingMessage, use: (text: string) => Promise<T>): Promise<T> {
    let taken = 0;
    const take = (bytes: number) => {
      if (this.#bytes + bytes > this.#limits.maxTotalBytes)
        throw new BodyError(429, 'RESOURCE_EXHAUSTED', 'The server has too many bytes of requests in memory');
      this.#bytes += bytes;
      taken += bytes;
    };
    try {
      return await use(await this.#text(request, take));
    } finally {
      this.#bytes -= taken;
    }
  }

  async #text(request: IncomingMessage, take: (bytes: number) => void): Promise<string> {
    const { maxBytes, maxValues, timeoutMs } = this.#limits;
    const announced = Number(request.headers['content-length'] ?? 0);
    if (announced > maxBytes) throw tooLarge(maxBytes);
    const chunks: Buffer[] = [];
    let size = 0;
    let values: ValueCount | undefined;
    await withinTime(request, timeoutMs, (source) =>
      consume(source, (chunk) => {
        size += chunk.byteLength;
        if (size > maxBytes) throw tooLarge(maxBytes);
        take(chunk.byteLength);
        chunks.push(chunk);
        // A value has at least one byte: smaller bodies need no look.
        if (size <= maxValues) return;
        values ??= countOf(chunks.slice(0, -1));
        if (values.add(chunk) > maxValues) throw tooMany(maxValues);
      }),
    );
    return (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString('utf8');
  }
}

const [QUOTE, ESCAPE, COMMA, LIST, OBJECT] = Buffer.from('"\\,[{') as unknown as readonly number[];

/** Counts the values of a JSON text while it arrives: at most one for each comma and each bracket outside strings. */
class ValueCount {
  #count = 1;
  #isInString = false;
  #isEscaped = false;

  add(chunk: Buffer): number {
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === QUOTE) this.#isInString = !this.#isInString;
      else if (this.#isInString) this.#isEscaped = byte === ESCAPE;
      else if (byte === COMMA || byte === LIST || byte === OBJECT) this.#count += 1;
    }
    return this.#count;
  }
}

function countOf(chunks: readonly Buffer[]): ValueCount {
  const count = new ValueCount();
  for (const chunk of chunks) count.add(chunk);
  return count;
}

const tooMany = (maxValues: number): BodyError =>
  new BodyError(413, 'RESOURCE_EXHAUSTED', `The request has more than ${maxValues} values`, {
    hint: 'Send fewer instances per request, or use gRPC.',
  });

const tooLarge = (maxBytes: number): BodyError =>
  new BodyError(413, 'RESOURCE_EXHAUSTED', `The body of the request is larger than ${maxBytes} bytes`);

async function withinTime(
  request: IncomingMessage,
  timeoutMs: number,
  read: (source: Readable) => Promise<void>,
): Promise<void> {
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity' && encoding !== 'gzip')
    throw new BodyError(415, 'INVALID_ARGUMENT', `The content encoding ${encoding} is not supported`);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () =>
        reject(
          new BodyError(
            408,
            'DEADLINE_EXCEEDED',
            `The body of the request did not arrive within ${timeoutMs} ms`,
          ),
        ),
      timeoutMs,
    );
  });
  try {
    await Promise.race([read(encoding === 'gzip' ? unzipped(request) : request), late]);
  } finally {
    clearTimeout(timer);
  }
}

function unzipped(request: IncomingMessage): Readable {
  const gunzip = createGunzip();
  request.on('error', (error) => gunzip.destroy(error));
  request.on('aborted', () => gunzip.destroy(new Error('The client closed the connection')));
  return request.pipe(gunzip);
}

/** Without an iterator: that would destroy the request, and with it the connection, when `take` throws. */
function consume(source: Readable, take: (chunk: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      source.removeAllListeners('data').pause();
      reject(
        error instanceof ServingError
          ? error
          : invalidRequest(`The body cannot be read: ${messageOf(error)}`),
      );
    };
    source.on('data', (chunk: Buffer) => {
      try {
        take(chunk);
      } catch (error) {
        fail(error);
      }
    });
    source.once('end', resolve);
    source.once('error', fail);
    source.once('close', () => {
      if (!source.readableEnded) fail(new ServingError('CANCELLED', 'The client closed the connection'));
    });
  });
}
