/**
 * Limits the bytes of request bodies that an agent holds in memory, per peer and in total. Each body has its own limit;
 * this one keeps many concurrent large bodies from exhausting the task's memory.
 */
import { ShoalError } from '../../../../base/errors/errors.js';

/** The request was not processed: the caller may resend it later. */
export class TooManyBytesError extends ShoalError {
  override readonly name = 'TooManyBytesError';

  constructor(who: string, bytes: number) {
    super(
      'SHOAL_UNREACHABLE',
      `${who} already has ${bytes} bytes of requests in flight to this task; try again later`,
    );
  }
}

export class BodyBudget {
  readonly #maxBytes: number;
  readonly #maxPeerBytes: number;
  readonly #byPeer = new Map<string, number>();
  #bytes = 0;

  constructor(maxBytes: number, maxPeerBytes: number) {
    this.#maxBytes = maxBytes;
    this.#maxPeerBytes = maxPeerBytes;
  }

  /** Reserves bytes for a peer; throws when that would exceed a limit. */
  take(peer: string, bytes: number): void {
    const own = this.#byPeer.get(peer) ?? 0;
    if (own + bytes > this.#maxPeerBytes) throw new TooManyBytesError(peer, own);
    if (this.#bytes + bytes > this.#maxBytes) throw new TooManyBytesError('all tasks together', this.#bytes);
    this.#bytes += bytes;
    this.#byPeer.set(peer, own + bytes);
  }

  give(peer: string, bytes: number): void {
    this.#bytes -= bytes;
    const own = (this.#byPeer.get(peer) ?? 0) - bytes;
    if (own > 0) this.#byPeer.set(peer, own);
    else this.#byPeer.delete(peer);
  }
}
