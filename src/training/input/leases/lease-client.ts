/**
 * A worker's client of the chief's lease server: holds the lease session, repeats requests until they are answered, and
 * reports when the worker must restart its input.
 */
import { ShoalError } from '../../../base/errors/errors.js';
import type { LeaseEndpoint } from './lease-server.js';
import type { Lease } from './ledger.js';
import type { LeaseSource } from './ledger-host.js';

/** How long a request waits at the server before it is repeated. */
const WAIT_MS = 10_000;

export class LeaseClient implements LeaseSource {
  readonly #server: LeaseEndpoint;
  readonly #signal: AbortSignal;
  readonly #onBegun: () => void;
  #leaseSession: string | undefined;
  #turn = 0;

  /** @param onBegun called when a session has begun: the server knows the outcome of all earlier steps. */
  constructor(server: LeaseEndpoint, signal: AbortSignal, onBegun = () => {}) {
    this.#server = server;
    this.#signal = signal;
    this.#onBegun = onBegun;
  }

  async begin(worker: string): Promise<void> {
    this.#leaseSession = undefined;
    this.#leaseSession = await this.#server.begin(worker, this.#signal);
    this.#onBegun();
  }

  async next(worker: string, holding: readonly number[]): Promise<Lease | undefined> {
    const leaseSession = this.#leaseSession;
    for (;;) {
      if (leaseSession === undefined || leaseSession !== this.#leaseSession) throw voidLeases(worker);
      this.#turn += 1;
      const question = { leaseSession, turn: this.#turn, holding, waitMs: WAIT_MS };
      const answer = await this.#server.next(worker, question, this.#signal);
      if (answer.type === 'void') throw voidLeases(worker);
      if (answer.type === 'lease') return answer.lease;
      if (answer.type === 'end') return undefined;
    }
  }

  async done(worker: string, lease: number, upTo: number, from = 0): Promise<void> {
    const leaseSession = this.#leaseSession;
    const counts =
      leaseSession !== undefined &&
      (await this.#server.done(worker, { leaseSession, lease, from, upTo }, this.#signal));
    if (!counts) throw voidLeases(worker);
  }
}

/** The code of TensorFlow's error for a step that must be repeated after a recovery. */
const voidLeases = (worker: string): ShoalError =>
  new ShoalError('SHOAL_TF_ABORTED', `The leases of ${worker} are void: it must restart its input`);
