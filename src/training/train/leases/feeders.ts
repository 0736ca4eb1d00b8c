/** Runs the JavaScript sources that feed the datasets of a graph, next to its session. */

import { withDeadline } from '../../../base/async/deadline.js';
import { describeError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { InputLost } from '../../input/dataset/fed-queue.js';
import { type Feeding, INPUT_FEEDERS, startFeeders } from '../../input/dataset/generator.js';
import type { TrainingRunner } from '../task/training-runner.js';

/** How long a source may take to stop. */
const STOP_MS = 5000;
/** How long the removal of the records of an earlier pass may take. */
const BEGIN_MS = 60_000;

export interface FeedersOptions {
  readonly log: Log;
  /** A source has failed before the end of its records. */
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

  /** Undefined if the graph has no datasets to feed. */
  static of(runner: TrainingRunner, options: FeedersOptions): Feeders | undefined {
    return runner.graph.getCollection(INPUT_FEEDERS).length > 0 ? new Feeders(runner, options) : undefined;
  }

  /** Starts or restarts all sources. The iterators must be initialized, and no step may read from them. */
  async begin(): Promise<void> {
    await this.stop();
    const feeding = startFeeders(this.#runner as Parameters<typeof startFeeders>[0]);
    this.#feeding = feeding;
    feeding.done.catch((error: unknown) => {
      // Training detects the loss of a peer too, and restarts the input.
      if (this.#feeding === feeding && !(error instanceof InputLost)) this.#options.onError(error);
    });
    await withDeadline(feeding.begun, 'Emptying the input queues', { timeoutMs: BEGIN_MS });
  }

  /** @param options `isPause`: the input continues in the same session. */
  async stop(options?: { readonly isPause?: boolean }): Promise<void> {
    const feeding = this.#feeding;
    this.#feeding = undefined;
    if (!feeding) return;
    await withDeadline(feeding.stop(options), 'Stopping the input', { timeoutMs: STOP_MS }).catch(
      (error: unknown) => this.#options.log(`input: ${describeError(error)}`),
    );
  }
}
