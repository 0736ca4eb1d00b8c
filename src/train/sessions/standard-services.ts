/** What a supervisor's chief does in the background: checkpoints, summaries, steps per second. */
import { dirname } from 'node:path';
import { isShoalError, messageOf } from '../../errors/errors.js';
import type { Output } from '../../graph/operation.js';
import type { FileWriter } from '../../summary/file-writer.js';
import type { Variable } from '../../variables/variable.js';
import { RetryingSaver } from '../checkpoints/retrying-saver.js';
import { writeGraph } from '../checkpoints/write-graph.js';
import { readStep } from '../hooks/global-step.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { SaverLike } from '../recovery/training-runner.js';
import type { ManagedSession } from './managed-session.js';

export interface StandardServicesOptions {
  readonly session: ManagedSession;
  readonly coordinator: Coordinator;
  readonly writer: FileWriter;
  readonly log: (line: string) => void;
  readonly globalStep: Variable<'int64'> | undefined;
  readonly summaryOp: Output<'string'> | undefined;
  readonly saver: SaverLike | undefined;
  readonly savePath: string;
  readonly saveModelSecs: number;
  readonly saveSummariesSecs: number;
}

export class StandardServices {
  readonly #options: StandardServicesOptions;
  readonly #retrying: RetryingSaver | undefined;
  #counted: { readonly step: number; readonly at: number } | undefined;

  constructor(options: StandardServicesOptions) {
    this.#options = options;
    const { saver, savePath, log, writer } = options;
    this.#retrying = saver && new RetryingSaver({ saver: () => saver, path: savePath, log, writer });
  }

  /** Begins all that was asked for. */
  async start(): Promise<void> {
    const { coordinator, writer, session, summaryOp, saveModelSecs, saveSummariesSecs } = this.#options;
    writer.addGraph(session.graph);
    // It is there for people: training does not end for the want of it.
    await writeGraph(session.graph, dirname(this.#options.savePath)).catch((error: unknown) =>
      this.#options.log(`the graph could not be written: ${messageOf(error)}`),
    );
    const step = await this.#step();
    // TensorBoard drops what an earlier run wrote of later steps.
    writer.addSessionLog('start', step);
    if (saveSummariesSecs > 0) {
      if (this.#options.globalStep) {
        this.#counted = { step, at: performance.now() };
        coordinator.loop(() => this.#countSteps(), { everySecs: saveSummariesSecs, name: 'step counter' });
      }
      if (summaryOp) {
        coordinator.loop(() => this.#summarise(summaryOp), {
          everySecs: saveSummariesSecs,
          name: 'summaries',
        });
      }
    }
    if (saveModelSecs > 0 && this.#retrying) {
      // A state that was just restored is a checkpoint already.
      await this.#retrying.findSaved(session.rawSession, step);
      coordinator.register(this.#keepSaving(this.#retrying), 'checkpoints');
    }
  }

  /** The last checkpoint, when training has ended well. */
  async end(): Promise<void> {
    const { saveModelSecs, session, writer } = this.#options;
    const step = await this.#step();
    if (saveModelSecs > 0 && this.#retrying) {
      const { rawSession } = session;
      await this.#retrying.saveLast(rawSession, await this.#retrying.lastStep(rawSession, step));
    }
    writer.addSessionLog('stop', step);
  }

  /** The first save is at once; one that failed is tried again sooner than the next is due. */
  async #keepSaving(careful: RetryingSaver): Promise<void> {
    const { coordinator, session, saveModelSecs } = this.#options;
    while (!coordinator.shouldStop()) {
      const step = await this.#tryStep();
      if (step !== undefined && step !== careful.savedStep) await careful.save(session.rawSession, step);
      const regular = saveModelSecs * 1000;
      const waitMs = careful.hasFailed ? Math.min(regular, careful.retryInMs) : regular;
      if (await coordinator.waitForStop(waitMs)) return;
    }
  }

  /** The cluster may be in trouble at this moment: training itself recovers, and the next time will do. */
  async #tryStep(): Promise<number | undefined> {
    try {
      return await this.#step();
    } catch (error) {
      this.#options.log(`the global step could not be read for a checkpoint: ${messageOf(error)}`);
      return undefined;
    }
  }

  async #step(): Promise<number> {
    const { globalStep, session } = this.#options;
    return globalStep ? readStep(session.background, globalStep.toOutput()) : 0;
  }

  async #countSteps(): Promise<void> {
    const { writer, globalStep, log } = this.#options;
    const step = await this.#step();
    const at = performance.now();
    const last = this.#counted;
    this.#counted = { step, at };
    if (!last || step <= last.step || at <= last.at) return;
    const speed = ((step - last.step) / (at - last.at)) * 1000;
    writer.addScalar(`${globalStep?.name}/sec`, speed, step);
    log(`${globalStep?.name}/sec: ${speed.toPrecision(4)}`);
  }

  async #summarise(summaryOp: Output<'string'>): Promise<void> {
    const { session, writer, coordinator } = this.#options;
    try {
      const summary = await session.background.run(summaryOp, { signal: coordinator.signal });
      writer.addSummary(summary, await this.#step());
    } catch (error) {
      if (coordinator.shouldStop() && isShoalError(error, 'SHOAL_ABORTED')) return;
      throw error;
    }
  }
}
