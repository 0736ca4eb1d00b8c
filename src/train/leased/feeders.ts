/** What fills the datasets of a graph from outside of TensorFlow, at work beside its session. */
import { withDeadline } from '../../async/deadline.js';
import { messageOf } from '../../errors/errors.js';
import { type FeederLike, type Feeding, startFeeders } from '../../input/generator.js';
import type { TrainingRunner } from '../saver-like.js';

/** How long a source may take to notice that nobody wants its records. */
const STOP_MS = 5000;

export class Feeders {
  readonly #runner: TrainingRunner;
  readonly #log: (line: string) => void;
  readonly #only: readonly FeederLike[] | undefined;
  #feeding: Feeding | undefined;

  /** @param only these; all of the graph when left out. */
  constructor(runner: TrainingRunner, log: (line: string) => void, only?: readonly FeederLike[]) {
    this.#runner = runner;
    this.#log = log;
    this.#only = only;
  }

  /** Begins, or begins anew: iterators were initialized, and nobody reads. */
  async begin(): Promise<void> {
    await this.stop();
    this.#feeding = startFeeders(this.#runner as Parameters<typeof startFeeders>[0], this.#only);
  }

  async stop(): Promise<void> {
    const feeding = this.#feeding;
    this.#feeding = undefined;
    if (!feeding) return;
    await withDeadline(feeding.stop(), 'Stopping the input', { timeoutMs: STOP_MS }).catch((error: unknown) =>
      this.#log(`the input: ${messageOf(error)}`),
    );
  }
}
