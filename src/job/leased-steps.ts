/**
 * Steps of leased input: each has a ticket for its batch before it begins, and reports what it consumed before it counts
 * as over. What fails is recovered and made again, with the batch that the ledger gives then.
 */
import { withDeadline } from '../async/deadline.js';
import { messageOf } from '../errors/errors.js';
import type { Output } from '../graph/operation.js';
import type { Ticket } from '../input/tickets.js';
import { Tensor } from '../tensor/tensor.js';
import type { RecoverableSession } from '../train/recoverable-session.js';
import type { ShardParts, TrainingGraph } from './training-graph.js';

/** How long steps may take to end before the input begins anew without them. */
const QUIET_MS = 30_000;

/** A ticket that became void while its step waited to begin: no fault of anybody's. */
class Overtaken extends Error {}

export class LeasedSteps {
  readonly #parts: TrainingGraph;
  readonly #shards: ShardParts;
  readonly #log: (line: string) => void;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(parts: TrainingGraph, shards: ShardParts, log: (line: string) => void) {
    this.#parts = parts;
    this.#shards = shards;
    this.#log = log;
  }

  /** One step of a lane; undefined when the input is at its end. */
  async step(
    session: RecoverableSession,
    lane: number,
    signal: AbortSignal,
  ): Promise<readonly [step: Tensor, loss: Tensor] | undefined> {
    for (;;) {
      try {
        const ticket = await this.#shards.input.admit(signal);
        if (!ticket) return undefined;
        return await this.#make(session, lane, ticket);
      } catch (error) {
        if (!(error instanceof Overtaken)) await session.recover(error);
      }
    }
  }

  async #make(session: RecoverableSession, lane: number, ticket: Ticket) {
    const { stepAfter, loss } = this.#parts;
    const { input, position, lane: laneOutput } = this.#shards;
    let end = () => {};
    const before = () => {
      if (!ticket.isValid) throw new Overtaken();
      const running = new Promise<void>((resolve) => {
        end = resolve;
      });
      this.#underWay.add(running);
      void running.then(() => this.#underWay.delete(running));
    };
    const feeds =
      lane === 0 ? {} : { feeds: new Map<Output, Tensor>([[laneOutput, Tensor.of(BigInt(lane))]]) };
    try {
      const [step, value] = await session.attempt([stepAfter, loss, position], feeds, {
        before,
        after: ([, , at]) => input.completed(at as Tensor<'int64'>),
      });
      return [step, value] as const;
    } finally {
      end();
    }
  }

  /** Resolves when no step is under way: the input can begin anew. */
  async quiet(): Promise<void> {
    const ended = Promise.all(this.#underWay);
    await withDeadline(ended, 'Steps under way', { timeoutMs: QUIET_MS }).catch((error: unknown) =>
      this.#log(`${messageOf(error)}; the input begins anew without them`),
    );
  }
}
