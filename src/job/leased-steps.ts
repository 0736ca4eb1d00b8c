/**
 * Steps of leased input: each has a batch before it begins. What fails is recovered and made again, with the batch that
 * the ledger gives then.
 */
import type { Output } from '../graph/operation.js';
import { Tensor } from '../tensor/tensor.js';
import { type LeasedInput, type LeasedStep, Overtaken } from '../train/leases/leased-input.js';
import type { RecoverableSession } from '../train/recovery/recoverable-session.js';
import type { JobSummaries } from './summaries.js';
import type { TrainingGraph } from './training-graph.js';

export class LeasedSteps {
  readonly #parts: TrainingGraph;
  readonly #input: LeasedInput;

  constructor(parts: TrainingGraph, input: LeasedInput) {
    this.#parts = parts;
    this.#input = input;
  }

  /** One step of a lane; undefined when the input is at its end. */
  async step(
    session: RecoverableSession,
    lane: number,
    signal: AbortSignal,
    summaries?: JobSummaries,
  ): Promise<readonly [step: Tensor, loss: Tensor] | undefined> {
    for (;;) {
      try {
        const step = await this.#input.admit(signal);
        if (!step) return undefined;
        return await this.#make(session, lane, step, summaries);
      } catch (error) {
        if (!(error instanceof Overtaken)) await session.recover(error);
      }
    }
  }

  async #make(session: RecoverableSession, lane: number, step: LeasedStep, summaries?: JobSummaries) {
    const { stepAfter, loss } = this.#parts;
    const { position, lane: laneOutput } = this.#input.shards;
    const feeds =
      lane === 0 ? {} : { feeds: new Map<Output, Tensor>([[laneOutput, Tensor.of(BigInt(lane))]]) };
    if (summaries) {
      const admitted = { position, make: step.make.bind(step) };
      return summaries.attempt(session, [stepAfter, loss], { ...feeds, admitted });
    }
    const [after, value] = await step.make(({ begin, consumed }) =>
      session.attempt([stepAfter, loss, position], feeds, {
        before: begin,
        after: ([, , at]) => consumed(at as Tensor<'int64'>),
      }),
    );
    return [after, value] as const;
  }
}
