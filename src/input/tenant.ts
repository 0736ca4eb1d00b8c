/** A worker at the chief's desk: keeps its tenure, asks until there is an answer, and says when it is to begin anew. */
import { ShoalError } from '../errors/errors.js';
import type { Desk } from './lease-desk.js';
import type { Lease } from './ledger.js';
import type { LeaseSource } from './ledger-host.js';

/** How long a question waits at the desk before it is asked again. */
const WAIT_MS = 10_000;

export class Tenant implements LeaseSource {
  readonly #desk: Desk;
  readonly #signal: AbortSignal;
  #tenure: string | undefined;
  #turn = 0;

  constructor(desk: Desk, signal: AbortSignal) {
    this.#desk = desk;
    this.#signal = signal;
  }

  async begin(worker: string): Promise<void> {
    this.#tenure = undefined;
    this.#tenure = await this.#desk.begin(worker, this.#signal);
  }

  async next(worker: string, holding: readonly number[]): Promise<Lease | undefined> {
    const tenure = this.#tenure;
    for (;;) {
      if (tenure === undefined || tenure !== this.#tenure) throw voidLeases(worker);
      this.#turn += 1;
      const question = { tenure, turn: this.#turn, holding, waitMs: WAIT_MS };
      const answer = await this.#desk.next(worker, question, this.#signal);
      if (answer.type === 'void') throw voidLeases(worker);
      if (answer.type === 'lease') return answer.lease;
      if (answer.type === 'end') return undefined;
    }
  }

  async done(worker: string, lease: number, upTo: number, from = 0): Promise<void> {
    const tenure = this.#tenure;
    const counts =
      tenure !== undefined && (await this.#desk.done(worker, { tenure, lease, from, upTo }, this.#signal));
    if (!counts) throw voidLeases(worker);
  }
}

/** As TensorFlow says it when a step is to be made again after a recovery. */
const voidLeases = (worker: string): ShoalError =>
  new ShoalError('SHOAL_TF_ABORTED', `The leases of ${worker} are void: it is to begin anew`);
