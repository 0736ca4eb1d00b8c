/** The session of a supervisor: its runs are training steps and survive the loss of a ps. */

import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { OpenedTraining } from '../core/open-training.js';
import type { StepGate } from '../recovery/steps/step-gate.js';
import type { Server } from '../task/server.js';
import type { TrainingRunner } from '../task/training-runner.js';

export class ManagedSession implements TrainingRunner, AsyncDisposable {
  readonly graph: Graph;
  readonly server?: Server;
  readonly #training: OpenedTraining;
  readonly #end: () => Promise<void>;

  constructor(training: OpenedTraining, end: () => Promise<void>) {
    this.graph = training.session.graph;
    if (training.server) this.server = training.server;
    this.#training = training;
    this.#end = end;
  }

  /** The underlying session: its runs are not training steps. For savers and evaluations. */
  get rawSession(): TrainingRunner {
    return this.#training.runner;
  }

  /** Runs in the background that survive the loss of a ps and do not pause for snapshots. */
  get background(): TrainingRunner {
    return this.#training.background;
  }

  /** The step counter of the supervisor. */
  get globalStep(): Variable | undefined {
    return this.#training.runner.globalStep;
  }

  /** @internal */
  get gate(): StepGate | undefined {
    return this.#training.gate;
  }

  /** Whether it waits for other tasks instead of training. */
  get isWaiting(): boolean {
    return this.#training.session.isRecovering;
  }

  get recoveries(): number {
    return this.#training.session.recoveries;
  }

  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    return this.#training.session.run(fetches, options);
  }

  /** Closes only the session; the supervisor's `stop` ends its services. */
  async close(): Promise<void> {
    await this.#training[Symbol.asyncDispose]();
  }

  /** Stops the supervisor, then closes the session. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
  }
}
