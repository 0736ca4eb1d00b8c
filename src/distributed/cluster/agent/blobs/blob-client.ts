/** Client for the blobs of a peer: streams resume where the connection broke, and are verified by crc32c. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { backoffMs } from '../../../../base/async/backoff.js';
import { sleep } from '../../../../base/async/deadline.js';
import { crc32c as crcOf } from '../../../../base/bytes/crc32c.js';
import { invalid, isShoalError, messageOf, ShoalError } from '../../../../base/errors/errors.js';
import { blobName, blobPath } from '../../../store/blob-names.js';
import type { DiskBlob } from '../../../store/disk/blob-disk.js';
import { PeerRefusal } from '../../../store/peers/peers.js';
import { sourceOf } from '../../../store/sources.js';
import type { BlobDigest, BlobSource, OrderedBy } from '../../../store/store.js';
import { type HttpPeer, isTransient, PeerError } from '../http-peer.js';
import { BlobInfoSchema, BlobListSchema, DigestSchema, UploadSchema, validated } from '../wire.js';

export interface BlobCallOptions {
  readonly signal?: AbortSignal;
  /** The deadline of small calls; for streams, the longest time without progress. */
  readonly timeoutMs?: number;
}

export interface BlobReadOptions extends BlobCallOptions {
  readonly start?: number;
  /** Exclusive; default: the end of the blob. */
  readonly end?: number;
  /** Expected sum of the bytes that are read: verified at the end. */
  readonly crc32c?: number;
  /** Consecutive attempts without progress before the read fails. */
  readonly attempts?: number;
}

export interface WriteOptions extends BlobCallOptions {
  readonly size?: number;
  /** Returns the crc32c of the complete blob after the last byte; default: it is computed here. */
  readonly crc32c?: () => number | Promise<number>;
  /** Do not replace an existing blob. */
  readonly ifAbsent?: boolean;
  /** The id of an upload of an earlier process, which is resumed; default: a new upload. */
  readonly uploadId?: string;
  /** The chief that ordered the write; default: none. */
  readonly orderedBy?: OrderedBy;
}

/** The headers that identify the writer or deleter of a blob; none for an operator outside the cluster. */
export type CallerHeaders = (orderedBy?: OrderedBy) => Readonly<Record<string, string>>;

export interface Written {
  /** False when `ifAbsent` found an existing blob. */
  readonly published: boolean;
  readonly size: number;
  readonly crc32c: number;
}

const TIMEOUT_MS = 30_000;
/** The peer reads the complete blob before it answers. */
const DIGEST_MS = 600_000;
const ABANDON_MS = 2000;
/** Consecutive attempts without progress. */
const ATTEMPTS = 5;

export class BlobClient {
  readonly #peer: HttpPeer;
  readonly #caller: CallerHeaders;

  constructor(peer: HttpPeer, caller: CallerHeaders = () => ({})) {
    this.#peer = peer;
    this.#caller = caller;
  }

  /** Size, time and etag of a blob; undefined when the peer does not have it. */
  async stat(name: string, options: BlobCallOptions = {}): Promise<DiskBlob | undefined> {
    try {
      const answer = await this.#peer.callAgain({
        ...bounds(options),
        method: 'HEAD',
        path: at('blobs', name),
      });
      answer.resume();
      return infoOf(name, answer);
    } catch (error) {
      // A response to HEAD has no body: the status alone reports a missing blob.
      if (error instanceof PeerError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** The bytes of a blob. Fails when the blob changes between two attempts. */
  async *read(name: string, options: BlobReadOptions = {}): AsyncGenerator<Uint8Array> {
    const { start = 0, end, crc32c, signal, attempts = ATTEMPTS } = options;
    let found = 0;
    let offset = start;
    let etag: string | undefined;
    for (let attempt = 0; end === undefined || offset < end; attempt++) {
      try {
        const answer = await this.#open(name, offset, end, etag, options);
        if (answer === undefined) break;
        etag ??= answer.headers.etag;
        for await (const chunk of answer as AsyncIterable<Buffer>) {
          if (crc32c !== undefined) found = crcOf(chunk, found);
          offset += chunk.byteLength;
          attempt = 0;
          yield chunk;
        }
        break;
      } catch (error) {
        const isRetryable = isShoalError(error) ? isTransient(error) : true;
        if (!isRetryable || attempt + 1 >= attempts || signal?.aborted)
          throw this.#broken(name, offset, error);
        await sleep(backoffMs(attempt, { baseMs: 50, maxMs: 2000 }), signal);
      }
    }
    if (crc32c !== undefined && found !== crc32c) {
      throw new ShoalError(
        'SHOAL_CORRUPT',
        `blob ${name} on ${this.#peer.label} has crc32c ${found}, expected ${crc32c}`,
        {
          task: this.#peer.task,
        },
      );
    }
  }

  async readAll(
    name: string,
    options: BlobReadOptions & { readonly maxBytes?: number } = {},
  ): Promise<Buffer> {
    const { maxBytes = 256 << 20 } = options;
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of this.read(name, options)) {
      size += chunk.byteLength;
      if (size > maxBytes)
        throw invalid(`blob ${name} is larger than ${maxBytes} bytes: read it as a stream`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  /** Streams a blob to the peer, which publishes it if size and crc32c match. */
  async write(name: string, source: BlobSource | Uint8Array, options: WriteOptions = {}): Promise<Written> {
    const id = options.uploadId ?? randomUUID();
    try {
      return await this.#write(name, id, source, options);
    } catch (error) {
      // No other process knows the id, so none can resume the upload.
      if (options.uploadId === undefined) await this.#abandon(name, id);
      throw asRefusal(error);
    }
  }

  async #write(
    name: string,
    id: string,
    source: BlobSource | Uint8Array,
    options: WriteOptions,
  ): Promise<Written> {
    const { signal } = options;
    const size = source instanceof Uint8Array ? source.byteLength : options.size;
    const from = sourceOf(source);
    const sum = (chunk: Uint8Array) => {
      if (options.crc32c === undefined) crc = crcOf(chunk, crc);
    };
    let crc = 0;
    let counted = 0;
    let sourceFailure: { readonly error: unknown } | undefined;
    const own = async function* (offset: number): AsyncGenerator<Uint8Array> {
      try {
        yield* from(offset);
      } catch (error) {
        sourceFailure = { error };
        throw error;
      }
    };
    const pass = async function* (offset: number): AsyncGenerator<Uint8Array> {
      let position = offset;
      for await (const chunk of own(offset)) {
        // Resent bytes are counted once.
        if (position + chunk.byteLength > counted) {
          sum(chunk.subarray(Math.max(0, counted - position)));
          counted = position + chunk.byteLength;
        }
        position += chunk.byteLength;
        yield chunk;
      }
    };
    let offset = options.uploadId === undefined ? 0 : await this.#offset(name, id, options);
    for await (const chunk of offset > 0 ? first(from(0), offset) : []) {
      sum(chunk);
      counted += chunk.byteLength;
    }
    for (let attempt = 0; ; attempt++) {
      const before = offset;
      try {
        offset = await this.#append(name, id, before, size, pass(before), options);
        break;
      } catch (error) {
        // Only failures of the connection are retried.
        if (sourceFailure !== undefined) throw sourceFailure.error;
        if (!isTransient(error) || signal?.aborted) throw error;
        offset = await this.#offset(name, id, options);
        if (offset > before) attempt = 0;
        if (attempt + 1 >= ATTEMPTS) throw error;
        await sleep(backoffMs(attempt, { baseMs: 50, maxMs: 2000 }), signal);
      }
    }
    return this.#publish(name, id, { size: counted, crc32c: (await options.crc32c?.()) ?? crc }, options);
  }

  /** Makes a complete upload visible. */
  async #publish(
    name: string,
    id: string,
    sum: Omit<Written, 'published'>,
    options: WriteOptions,
  ): Promise<Written> {
    const query = `id=${id}&size=${sum.size}&crc32c=${sum.crc32c}&if_absent=${Number(options.ifAbsent ?? false)}`;
    const path = `${at('uploads', name)}?${query}`;
    const headers = this.#caller(options.orderedBy);
    const answer = await this.#peer.callAgain({ ...bounds(options), method: 'POST', path, headers });
    answer.resume();
    return { published: answer.statusCode !== 412, ...sum };
  }

  async #abandon(name: string, id: string): Promise<void> {
    try {
      const path = `${at('uploads', name)}?id=${id}`;
      (await this.#peer.call({ method: 'DELETE', path, timeoutMs: ABANDON_MS })).resume();
    } catch {
      // The peer is unreachable or refused the name. The original failure is reported, and the peer sweeps.
    }
  }

  /** Removes a blob; succeeds when it does not exist. */
  async remove(name: string, options: BlobCallOptions = {}): Promise<void> {
    const request = { method: 'DELETE', path: at('blobs', name), headers: this.#caller() };
    try {
      (await this.#peer.callAgain({ ...bounds(options), ...request })).resume();
    } catch (error) {
      throw asRefusal(error);
    }
  }

  /** Size and crc32c as the peer reads them from its disk. */
  async digest(name: string, options: BlobCallOptions = {}): Promise<BlobDigest> {
    const answer = await this.#peer.json({
      ...bounds({ ...options, timeoutMs: options.timeoutMs ?? DIGEST_MS }),
      path: at('digests', name),
    });
    return validated(DigestSchema, answer, `response of ${this.#peer.label}`);
  }

  async *list(
    prefix = '',
    options: BlobCallOptions & { readonly pageSize?: number } = {},
  ): AsyncGenerator<DiskBlob> {
    const { pageSize = 1000 } = options;
    for (let after: string | null = ''; after !== null; ) {
      const query = new URLSearchParams({ prefix, limit: String(pageSize), ...(after !== '' && { after }) });
      const answer = await this.#peer.json({ ...bounds(options), path: `/blobs?${query}` });
      const page = validated(BlobListSchema, answer, `response of ${this.#peer.label}`);
      yield* page.blobs;
      after = page.next;
    }
  }

  async #open(
    name: string,
    offset: number,
    end: number | undefined,
    etag: string | undefined,
    options: BlobReadOptions,
  ) {
    const isComplete = offset === 0 && end === undefined;
    const answer = await this.#peer.call({
      ...bounds(options),
      path: at('blobs', name),
      headers: {
        ...(isComplete ? {} : { range: `bytes=${offset}-${end === undefined ? '' : end - 1}` }),
        ...(etag === undefined ? {} : { 'if-match': etag }),
      },
    });
    const { timeoutMs = TIMEOUT_MS } = options;
    const late = () => answer.destroy(new ShoalError('SHOAL_UNREACHABLE', `no data for ${timeoutMs} ms`));
    const { socket } = answer;
    answer.setTimeout(timeoutMs, late).once('close', () => socket.off('timeout', late));
    if (answer.statusCode === 412) {
      answer.resume();
      throw new ShoalError('SHOAL_CORRUPT', `blob ${name} on ${this.#peer.label} changed while being read`);
    }
    if (answer.statusCode !== 416) return answer;
    answer.resume();
    if (offset === Number(/\*\/(\d+)$/.exec(answer.headers['content-range'] ?? '')?.[1])) return undefined;
    throw invalid(`blob ${name} on ${this.#peer.label} ends before byte ${offset}`);
  }

  async #append(
    name: string,
    id: string,
    offset: number,
    size: number | undefined,
    body: AsyncIterable<Uint8Array>,
    options: WriteOptions,
  ): Promise<number> {
    const path = `${at('uploads', name)}?id=${id}&offset=${offset}${size === undefined ? '' : `&size=${size}`}`;
    const headers = this.#caller(options.orderedBy);
    const request = { method: 'PUT', path, headers, body, once: true };
    const answer = await this.#peer.json({ ...bounds(options), ...request });
    return validated(UploadSchema, answer, `response of ${this.#peer.label}`).offset;
  }

  async #offset(name: string, id: string, options: WriteOptions): Promise<number> {
    const headers = this.#caller(options.orderedBy);
    const path = `${at('uploads', name)}?id=${id}`;
    const answer = await this.#peer.json({ ...bounds(options), path, headers });
    return validated(UploadSchema, answer, `response of ${this.#peer.label}`).offset;
  }

  #broken(name: string, offset: number, cause: unknown): ShoalError {
    if (isShoalError(cause)) return cause;
    const what = `reading blob ${name} failed at byte ${offset}: ${messageOf(cause)}`;
    return new PeerError('SHOAL_UNREACHABLE', 'reset', `${this.#peer.label}: ${what}`, {
      task: this.#peer.task,
      cause,
    });
  }
}

/** Wraps an authorization failure that the peer sent. A PeerError reports mismatched credentials and stays as it is. */
function asRefusal(error: unknown): unknown {
  if (!isShoalError(error, 'SHOAL_FORBIDDEN') || error instanceof PeerError) return error;
  const { message, task, cause } = error;
  return new PeerRefusal(message, { task, cause });
}

function at(kind: 'blobs' | 'uploads' | 'digests', name: string): string {
  return `/${kind}/${blobPath(blobName(name))}`;
}

function bounds({ signal, timeoutMs = TIMEOUT_MS }: BlobCallOptions) {
  return { signal, timeoutMs };
}

function infoOf(name: string, { headers }: IncomingMessage): DiskBlob {
  return validated(
    BlobInfoSchema,
    {
      name,
      size: Number(headers['content-length']),
      modifiedMs: Number(headers['x-modified-ms']),
      etag: headers.etag,
    },
    'blob headers',
  );
}

/** The first `size` bytes of a stream. */
async function* first(source: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Uint8Array> {
  let left = size;
  for await (const chunk of source) {
    yield chunk.subarray(0, left);
    left -= chunk.byteLength;
    if (left <= 0) return;
  }
}
