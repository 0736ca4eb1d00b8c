/** What fills the datasets of a graph from outside of TensorFlow, at work beside its session. */
import { withDeadline } from '../../async/deadline.js';
import { messageOf } from '../../errors/errors.js';
import { InputLost } from '../../input/dataset/fed-queue.js';
import { type Feeding, INPUT_FEEDERS, startFeeders } from '../../input/dataset/generator.js';
import type { TrainingRunner } from '../recovery/training-runner.js';

/** How long a source may take to notice that nobody wants its records. */
const STOP_MS = 5000;
/** How long what an earlier pass left may take to be removed. */
const BEGIN_MS = 60_000;

export interface FeedersOptions {
  readonly log: (line: string) => void;
  /** A source has failed: the records end here, and that is not their end. */
  readonly onError: (error: unknown) => void;
}

export class Feeders {
  readonly #runner: TrainingRunner;
  readonly #options: FeedersOptions;
  #feeding: Feeding | undefined;

  private constructor(runner: TrainingRunner, options: FeedersOptions) {
    this.#runner = runner;
    this.#options = options;
  }

  /** Undefined where nothing is to be fed. */
  static of(runner: TrainingRunner, options: FeedersOptions): Feeders | undefined {
    return runner.graph.getCollection(INPUT_FEEDERS).length > 0 ? new Feeders(runner, options) : undefined;
  }

  /** Begins, or begins anew: iterators were initialized, and nobody reads. */
  async begin(): Promise<void> {
    await this.stop();
    const feeding = startFeeders(this.#runner as Parameters<typeof startFeeders>[0]);
    this.#feeding = feeding;
    feeding.done.catch((error: unknown) => {
      // Who trains meets the loss of a peer too, and begins anew.
      if (this.#feeding === feeding && !(error instanceof InputLost)) this.#options.onError(error);
    });
    await withDeadline(feeding.begun, 'Emptying the queues of the input', { timeoutMs: BEGIN_MS });
  }

  /** `isPause`: it begins again in the same session. */
  async stop(options?: { readonly isPause?: boolean }): Promise<void> {
    const feeding = this.#feeding;
    this.#feeding = undefined;
    if (!feeding) return;
    await withDeadline(feeding.stop(options), 'Stopping the input', { timeoutMs: STOP_MS }).catch(
      (error: unknown) => this.#options.log(`the input: ${messageOf(error)}`),
    );
  }
}
