/** A serving process that takes versions, as publishers call it. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type * as v from 'valibot';
import { backoffMs } from '../../../base/async/backoff.js';
import { sleep } from '../../../base/async/deadline.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { HttpPeer, isTransient, PeerError } from '../../../distributed/cluster/agent/http-peer.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import type { Security } from '../../../distributed/cluster/spec/security.js';
import type { PublishedManifest } from './manifest.js';
import {
  type BeginReply,
  BeginReplySchema,
  type BeginRequest,
  type ModelReport,
  ModelsSchema,
  PREFIX,
  type PublicationState,
  RANGE_BYTES,
  StateSchema,
} from './wire.js';

const CALL_MS = 10_000;
/** The target may have to read a version that it has, to compare it. */
const BEGIN_MS = 60_000;
/** Ranges that are sent to a target at a time. */
const RANGES = 2;
const ATTEMPTS = 6;
const RETRY = { baseMs: 100, maxMs: 3000 };
/** Between two attempts while the target receives as much as it can. */
const BUSY_MS = 1000;
const FIRST_LOOK_MS = 20;
const LOOK_MS = 500;

export class PublishTarget {
  readonly address: string;
  readonly #peer: HttpPeer;

  constructor(address: string, security: Security) {
    this.address = address;
    this.#peer = new HttpPeer({ address, security, noun: 'the serving process', maxSockets: RANGES + 2 });
  }

  async models(signal?: AbortSignal): Promise<readonly ModelReport[]> {
    return (await this.#json(ModelsSchema, { path: PREFIX, signal })).models;
  }

  begin(request: BeginRequest, signal?: AbortSignal): Promise<BeginReply> {
    const body = JSON.stringify(request);
    return this.#json(BeginReplySchema, { method: 'POST', path: PREFIX, body, timeoutMs: BEGIN_MS, signal });
  }

  async send(
    id: string,
    directory: string,
    { files }: PublishedManifest,
    options: { readonly signal: AbortSignal; readonly onSent: (bytes: number) => void },
  ): Promise<void> {
    const ranges = rangesOf(files);
    const sender = async (): Promise<void> => {
      for (let next = ranges.next(); !next.done; next = ranges.next()) {
        const { file, offset, length } = next.value;
        await this.#sendRange(
          id,
          join(directory, files[file]!.path),
          { file, offset, length },
          options.signal,
        );
        options.onSent(length);
      }
    };
    await Promise.all(Array.from({ length: RANGES }, sender));
  }

  /** Waits until the publication is in a state; throws what it failed with. */
  async reach(id: string, wanted: 'prepared' | 'committed', signal: AbortSignal): Promise<void> {
    const action = wanted === 'prepared' ? 'prepare' : 'commit';
    let { state, error } = await this.#call('POST', `${id}/${action}`, signal);
    for (let waitMs = FIRST_LOOK_MS; state !== wanted; waitMs = Math.min(LOOK_MS, waitMs * 1.5)) {
      if (state === 'failed') throw this.#failure(error);
      await sleep(waitMs, signal);
      ({ state, error } = await this.#call('GET', id, signal));
    }
  }

  /** Shows the target that the publisher is there. */
  async touch(id: string, signal?: AbortSignal): Promise<PublicationState['state']> {
    return (await this.#call('GET', id, signal)).state;
  }

  async abort(id: string): Promise<void> {
    await this.#call('DELETE', id);
  }

  close(): void {
    this.#peer.close();
  }

  async #sendRange(
    id: string,
    path: string,
    { file, offset, length }: RangeToSend,
    signal: AbortSignal,
  ): Promise<void> {
    const bytes = await readRange(path, offset, length);
    const query = `file=${file}&offset=${offset}&crc32c=${crc32c(bytes)}`;
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#json(StateSchema, {
          method: 'PUT',
          path: `${PREFIX}/${id}/range?${query}`,
          headers: { 'content-length': length },
          body: once(bytes),
          signal,
          once: true,
        });
        return;
      } catch (error) {
        if (isBusy(error) && !signal.aborted) {
          attempt -= 1;
          await sleep(BUSY_MS * (0.5 + Math.random()), signal);
          continue;
        }
        const mayHelp = isTransient(error) || isShoalError(error, 'SHOAL_CORRUPT');
        if (attempt + 1 >= ATTEMPTS || !mayHelp || signal.aborted) throw error;
        await sleep(backoffMs(attempt, RETRY), signal);
      }
    }
  }

  #call(method: string, what: string, signal?: AbortSignal): Promise<PublicationState> {
    return this.#json(StateSchema, { method, path: `${PREFIX}/${what}`, signal });
  }

  async #json<S extends v.GenericSchema>(
    schema: S,
    options: {
      readonly path: string;
      readonly method?: string;
      readonly headers?: Readonly<Record<string, number>>;
      readonly body?: string | AsyncIterable<Uint8Array>;
      readonly timeoutMs?: number;
      readonly signal?: AbortSignal | undefined;
      readonly once?: boolean;
    },
  ): Promise<v.InferOutput<S>> {
    const { signal, ...rest } = options;
    try {
      const answer = await this.#peer.json({
        timeoutMs: CALL_MS,
        maxBytes: 16 << 20,
        ...rest,
        ...(signal ? { signal } : {}),
      });
      return validated(schema, answer, `the answer of ${this.address}`);
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_FORBIDDEN')) throw error;
      throw new ShoalError('SHOAL_FORBIDDEN', `${this.address} accepts no versions with these credentials`, {
        hint:
          'Pass the token of that process with --token_file or SHOAL_PUBLISH_TOKEN, or a certificate of an operator ' +
          'with --certs. A job without a chief needs one of its own for worker 0: shoal certs issue /job:worker/task:0.',
        cause: error,
      });
    }
  }

  #failure(error: PublicationState['error']): ShoalError {
    const { code = 'SHOAL_INTERNAL', message = 'it failed', hint } = error ?? {};
    return new ShoalError(
      code as ShoalError['code'],
      `${this.address}: ${message}`,
      hint === undefined ? {} : { hint },
    );
  }
}

/** The target refuses for the moment, and has read nothing. */
const isBusy = (error: unknown): boolean => error instanceof PeerError && error.status === 429;

interface RangeToSend {
  readonly file: number;
  readonly offset: number;
  readonly length: number;
}

/** A file without bytes has one range too. */
function* rangesOf(files: PublishedManifest['files']): Generator<RangeToSend, undefined> {
  for (const [file, { bytes }] of files.entries())
    for (let offset = 0; offset === 0 || offset < bytes; offset += RANGE_BYTES)
      yield { file, offset, length: Math.min(RANGE_BYTES, bytes - offset) };
  return undefined;
}

async function readRange(path: string, offset: number, length: number): Promise<Buffer> {
  const file = await open(path, 'r');
  try {
    const buffer = Buffer.allocUnsafe(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await file.read(buffer, done, length - done, offset + done);
      if (bytesRead === 0)
        throw new ShoalError('SHOAL_CORRUPT', `${path} became shorter while it was published`);
      done += bytesRead;
    }
    return buffer;
  } finally {
    await file.close();
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
