/**
 * How many bytes of request bodies an agent holds in memory at once, from one peer and from all. A single body has its
 * own bound; without this one, many large bodies at the same time would use up the memory of the task.
 */
import { ShoalError } from '../../errors/errors.js';

/** The request was not looked at: the caller may send it again after a while. */
export class TooManyBytesError extends ShoalError {
  override readonly name = 'TooManyBytesError';

  constructor(who: string, bytes: number) {
    super('SHOAL_UNREACHABLE', `${who} already sends ${bytes} bytes to this task at once; try again later`);
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

  /** Takes bytes for a peer, or throws when there are too many. */
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
