/**
 * The summaries of a job's model (`tf.summary.*`), written to event files while it trains. The chief fetches them in the run
 * of a training step, so they describe the batch of that step and take none of their own.
 */
import { join } from 'node:path';
import { messageOf } from '../errors/errors.js';
import type { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import type { Fetches, FetchResult } from '../session/fetches.js';
import type { RunOptions } from '../session/session.js';
import { runWithHooks } from '../train/core/hooked-run.js';
import { SessionRunContext, type SessionRunHook } from '../train/hooks/session-run-hook.js';
import { StepCounterHook } from '../train/hooks/step-counter.js';
import { SummarySaverHook } from '../train/hooks/summary-saver.js';
import { SummaryWriters } from '../train/hooks/summary-writers.js';
import type { AdmittedRun } from '../train/leases/leased-input.js';
import type { RecoverableSession } from '../train/recovery/recoverable-session.js';
import type { SummariesOptions } from './define-job.js';

const DIRECTORY = 'summaries';
const EVERY_STEPS = 100;

export interface JobSummariesOptions extends SummariesOptions {
  readonly graph: Graph;
  readonly summaryOp: Output<'string'>;
  /** The task's own directory. */
  readonly dir: string;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

export class JobSummaries implements AsyncDisposable {
  readonly #hooks: readonly SessionRunHook[];
  readonly #writers = new SummaryWriters();
  readonly #options: JobSummariesOptions;

  constructor(options: JobSummariesOptions) {
    this.#options = options;
    const { graph, summaryOp, dir, everySecs, everySteps, directory = DIRECTORY } = options;
    const outputDir = join(dir, directory);
    const steps = everySteps ?? (everySecs === undefined ? EVERY_STEPS : undefined);
    const saver = new SummarySaverHook({ summaryOp, outputDir, saveSteps: steps, saveSecs: everySecs });
    const counter = new StepCounterHook({ outputDir, everyNSteps: steps, everyNSecs: everySecs });
    // The training loop logs the speed itself.
    const setup = { graph, writers: this.#writers, log: () => {} };
    for (const hook of [saver, counter]) hook.begin(setup);
    this.#hooks = [saver, counter];
  }

  /** A training step with its summaries, where they are due; repeated after a loss, as `session.run` does. */
  async step<const F extends Fetches>(session: RecoverableSession, fetches: F): Promise<FetchResult<F>> {
    for (;;) {
      try {
        return await this.attempt(session, fetches);
      } catch (error) {
        await session.recover(error);
      }
    }
  }

  /** The same, tried once; `admitted` where its input is leased. */
  async attempt<const F extends Fetches>(
    session: RecoverableSession,
    fetches: F,
    { admitted, ...options }: Pick<RunOptions, 'feeds'> & { readonly admitted?: AdmittedRun } = {},
  ): Promise<FetchResult<F>> {
    // The step itself is made when a hook reads the global step: a loss in between must not repeat it.
    const reader = {
      graph: session.graph,
      run: <const G extends Fetches>(what: G, how?: RunOptions) => session.runUngated(what, how),
    };
    const context = new SessionRunContext(reader, { fetches }, this.#options.signal);
    const admit = admitted && (async () => admitted);
    const run = { hooks: this.#hooks, context, options, session, admit };
    return (await runWithHooks(run, fetches)) as FetchResult<F>;
  }

  /** That a disk refused event files is logged and does not fail the job. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writers
      .close()
      .catch((error: unknown) =>
        this.#options.log(`summaries could not be written completely: ${messageOf(error)}`),
      );
  }
}
