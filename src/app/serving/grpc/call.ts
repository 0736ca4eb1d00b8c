/**
 * One call: its deadline, its cancellation, its messages in both directions and its end. A call ends exactly once, with
 * a status; whatever comes later, from the client or the handler, has no effect.
 */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { constants } from 'node:http2';
import type { Parts } from '../messages/wire-writer.js';
import type { RequestLimits } from '../requests.js';
import { ServingError, statusOf } from '../status.js';
import {
  ACCEPTED_ENCODINGS,
  type ByteBudget,
  decompress,
  type Frame,
  FrameReader,
  frameOf,
  isKnownEncoding,
} from './frames.js';
import { OK_TRAILERS, timeoutMs, trailersOf } from './metadata.js';

export interface CallLimits {
  readonly maxMessageBytes: number;
  /** How long a client may send nothing while a message of it is awaited, or read nothing of an answer. */
  readonly maxSilenceMs: number;
}

/** Answers of at most this size are sent whatever the client reads. */
const SMALL_BYTES = 16 << 10;
const CONTENT_TYPE = 'application/grpc';
/** Timers of Node hold 31 bits. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export class Call implements RequestLimits {
  readonly deadline: number | undefined;
  readonly #stream: ServerHttp2Stream;
  readonly #encoding: string;
  readonly #limits: CallLimits;
  readonly #frames: FrameReader;
  readonly #budget: ByteBudget;
  /** Bytes of messages that the call keeps. */
  #held = 0;
  readonly #timer: NodeJS.Timeout | undefined;
  #abort: AbortController | undefined;
  #aborted: Error | undefined;
  #hasEnded = false;
  #hasResponded = false;
  #requestEnded = false;
  /** Messages that are being decompressed, in order. */
  #decoding: Promise<void> | undefined;
  #silence: NodeJS.Timeout | undefined;
  readonly #afterEnd: (() => void)[] = [];
  #onEnd: (() => void) | undefined;
  #onMessage: ((message: Buffer) => void) | undefined;

  /** Throws if the headers are invalid. */
  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    limits: CallLimits,
    budget: ByteBudget,
  ) {
    this.#stream = stream;
    this.#limits = limits;
    this.#budget = budget;
    this.#encoding = String(headers['grpc-encoding'] ?? 'identity');
    this.#frames = new FrameReader(limits.maxMessageBytes, budget, (frame) => this.#receive(frame));
    stream.once('close', () => {
      // Making the error of a call that has ended would cost more than the rest of its end.
      if (!this.#hasEnded) this.#finish(new ServingError('CANCELLED', 'The client cancelled the call'));
    });
    const timeout = timeoutMs(headers['grpc-timeout'] as string | undefined);
    if (!isKnownEncoding(this.#encoding))
      throw new ServingError('UNIMPLEMENTED', `grpc-encoding ${this.#encoding} is not supported`);
    if (timeout === undefined) return;
    this.deadline = performance.now() + timeout;
    this.#timer = setTimeout(
      () => this.fail(new ServingError('DEADLINE_EXCEEDED', 'Deadline Exceeded')),
      Math.min(timeout, MAX_TIMER_MS),
    );
  }

  /** Aborted when the client cancels, the deadline passes or the connection is lost. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#aborted) this.#abort.abort(this.#aborted);
    }
    return this.#abort.signal;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Calls the listener when the call has ended, whatever its status. */
  afterEnd(listener: () => void): void {
    if (this.#hasEnded) listener();
    else this.#afterEnd.push(listener);
  }

  /** Begins to receive: `onMessage` for each message, `onEnd` after the client's last. */
  receive(onMessage: (message: Buffer) => void, onEnd: () => void): void {
    this.#onMessage = onMessage;
    this.#onEnd = onEnd;
    this.#waitForClient();
    this.#stream.on('data', (chunk: Buffer) => {
      if (this.#hasEnded) return;
      this.#silence?.refresh();
      try {
        this.#frames.push(chunk);
      } catch (error) {
        this.fail(error);
      }
    });
    this.#stream.on('end', () => {
      this.#requestEnded = true;
      clearTimeout(this.#silence);
      const isInside = this.#frames.isInside;
      const finish = () => {
        if (this.#hasEnded) return;
        if (isInside) this.fail(new ServingError('INTERNAL', 'The request ends within a message'));
        else this.#onEnd?.();
      };
      if (this.#decoding) void this.#decoding.then(finish);
      else finish();
    });
  }

  /** Counts bytes as those of the server's requests until the call has ended. */
  hold(bytes: number): void {
    if (this.#hasEnded) return;
    this.#budget.take(bytes);
    this.#held += bytes;
  }

  /** Receives nothing more until `resume`; messages that have arrived already are still passed on. */
  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    if (!this.#hasEnded) this.#stream.resume();
  }

  /** Stops the limit on silence, for calls whose clients may be silent. */
  allowSilence(): void {
    clearTimeout(this.#silence);
  }

  #waitForClient(): void {
    const { maxSilenceMs } = this.#limits;
    this.#silence = setTimeout(
      () =>
        this.fail(new ServingError('DEADLINE_EXCEEDED', `The client sent nothing for ${maxSilenceMs} ms`)),
      maxSilenceMs,
    );
  }

  #receive({ isCompressed, bytes }: Frame): void {
    if (!isCompressed) {
      this.#onMessage?.(bytes);
      return;
    }
    const before = this.#decoding ?? Promise.resolve();
    this.#decoding = before
      .then(() => decompress(bytes, this.#encoding, this.#limits.maxMessageBytes, this.#budget))
      .then(
        (message) => {
          if (!this.#hasEnded) this.#onMessage?.(message);
        },
        (error: unknown) => this.fail(error),
      );
  }

  /** Sends a message of a stream; resolves when the client can take more. */
  async send(parts: Parts): Promise<void> {
    if (this.#hasEnded) return;
    this.#respond();
    if (this.#stream.write(frameOf(parts))) return;
    await new Promise<void>((resolve) => {
      this.#stream.once('drain', resolve);
      this.#stream.once('close', resolve);
    });
  }

  /** Ends the call with OK, after a last message. */
  end(parts?: Parts): void {
    if (this.#hasEnded) return;
    this.#respond();
    const frame = parts && frameOf(parts);
    this.#finish();
    if (frame) this.#stream.end(frame);
    else this.#stream.end();
    if (frame && frame.length > SMALL_BYTES)
      this.#stream.setTimeout(this.#limits.maxSilenceMs, () => this.#stream.close(constants.NGHTTP2_CANCEL));
  }

  /** Ends the call with the status of an error. */
  fail(error: unknown): void {
    if (this.#hasEnded) return;
    const found = statusOf(error);
    const trailers = trailersOf(found);
    this.#finish(error instanceof Error ? error : new ServingError(found.status, found.message));
    if (this.#stream.closed || this.#stream.destroyed) return;
    if (this.#hasResponded) {
      this.#trailers = trailers;
      this.#stream.end();
    } else {
      const headers = { ':status': 200, 'content-type': CONTENT_TYPE, ...trailers };
      this.#stream.respond({ ...headers, 'grpc-accept-encoding': ACCEPTED_ENCODINGS }, { endStream: true });
    }
    // Without this the client would send the rest of its message.
    if (!this.#requestEnded) this.#stream.close(constants.NGHTTP2_NO_ERROR);
  }

  #trailers: Readonly<Record<string, string>> = OK_TRAILERS;

  #respond(): void {
    if (this.#hasResponded) return;
    this.#hasResponded = true;
    this.#stream.respond({ ':status': 200, 'content-type': CONTENT_TYPE }, { waitForTrailers: true });
    this.#stream.once('wantTrailers', () => this.#stream.sendTrailers(this.#trailers));
  }

  #finish(error?: Error): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#frames.close();
    this.#budget.give(this.#held);
    for (const listener of this.#afterEnd) listener();
    if (!error) return;
    this.#aborted = error;
    this.#abort?.abort(error);
  }
}
