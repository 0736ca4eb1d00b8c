/** Background services of a supervisor's chief: checkpoints, summaries, steps per second. */

import { dirname } from 'node:path';
import { describeError, isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import { globalStepOf } from '../../../tensorflow/variables/global-step.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { RetryingSaver, readLastStep } from '../checkpoints/retrying-saver.js';
import { atEnd, every, SaveSchedule, ScheduledWork, whenLeaving } from '../checkpoints/save-schedule.js';
import { writeGraph } from '../checkpoints/write-graph.js';
import type { Coordinator } from '../recovery/coordinator.js';
import { readGlobalStep } from '../recovery/read-global-step.js';
import type { SaverLike } from '../task/training-runner.js';
import type { ManagedSession } from './managed-session.js';

export interface StandardServicesOptions {
  readonly session: ManagedSession;
  readonly coordinator: Coordinator;
  readonly writer: FileWriter;
  /** Aborted when training is interrupted. */
  readonly signal: AbortSignal | undefined;
  readonly log: Log;
  readonly globalStep: Variable | undefined;
  readonly summaryOp: Output<'string'> | undefined;
  readonly saver: SaverLike | undefined;
  readonly savePath: string;
  readonly saveModelSecs: number;
  readonly saveSummariesSecs: number;
  /** How long the last save may be tried again. */
  readonly lastSaveMs: number;
}

export class StandardServices {
  readonly #options: StandardServicesOptions;
  readonly #retrying: RetryingSaver | undefined;
  readonly #saving: ScheduledWork;
  #counted: { readonly step: number; readonly at: number } | undefined;

  constructor(options: StandardServicesOptions) {
    this.#options = options;
    const { saver, savePath, log, writer } = options;
    const schedule = new SaveSchedule([...every({ secs: options.saveModelSecs }), atEnd, whenLeaving]);
    this.#retrying =
      saver && new RetryingSaver({ saver: () => saver, path: savePath, schedule, log, writer });
    this.#saving = new ScheduledWork(schedule, () => this.#save());
  }

  /** Starts the services that are enabled. */
  async start(): Promise<void> {
    const { coordinator, writer, session, summaryOp, saveModelSecs, saveSummariesSecs } = this.#options;
    writer.addGraph(session.graph);
    // The file is informational: training continues without it.
    await writeGraph(session.graph, dirname(this.#options.savePath)).catch((error: unknown) =>
      this.#options.log(`graph.pbtxt could not be written: ${describeError(error)}`),
    );
    const step = await this.#step();
    // TensorBoard then drops the later steps that an earlier run wrote.
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
      if (await this.#retrying.findSaved(session.rawSession, step))
        await this.#retrying.tidy(session.rawSession);
      const retrying = this.#retrying;
      retrying.savesWhenLeaving(session.rawSession, async (hold) =>
        retrying.saveHeld(session.rawSession, await this.#step(), hold),
      );
      this.#saving.begin(step);
      this.#saving.start();
      coordinator.register(
        coordinator.waitForStop().then(() => this.#saving.stop()),
        'checkpoints',
      );
    }
  }

  /** Whether it saves checkpoints. */
  get saves(): boolean {
    return this.#options.saveModelSecs > 0 && this.#retrying !== undefined;
  }

  /** Saves the last checkpoint; called when training has ended without an error. */
  async end(): Promise<void> {
    const { saveModelSecs, session, writer, signal, log, lastSaveMs } = this.#options;
    // Saved before a ps has left: its values are gone, and cannot be read any more.
    const held = await this.#retrying?.held;
    if (held !== undefined) {
      writer.addSessionLog('stop', held);
      return;
    }
    const step = await this.#step();
    if (saveModelSecs > 0 && this.#retrying) {
      // Without a counter every state has the same number.
      if (!this.#isCounted) this.#retrying.restored(undefined);
      const { rawSession } = session;
      this.#retrying.leavesNoMore(rawSession);
      const last = await readLastStep(rawSession, step, log);
      const isSaved = await this.#retrying.saveLast(rawSession, last, { patienceMs: lastSaveMs, signal });
      // The steps since the newest checkpoint are lost.
      if (!isSaved) throw this.#retrying.failure;
    }
    writer.addSessionLog('stop', step);
  }

  async #save(): Promise<void> {
    const saver = this.#retrying;
    const step = await this.#tryStep();
    const isSaved = this.#isCounted && step === saver?.savedStep;
    if (step !== undefined && !isSaved && !saver?.held)
      await saver?.save(this.#options.session.rawSession, step);
  }

  /** A failure is only logged: training recovers by itself, and the next read may succeed. */
  async #tryStep(): Promise<number | undefined> {
    try {
      return await this.#step();
    } catch (error) {
      this.#options.log(`the global step could not be read for a checkpoint: ${describeError(error)}`);
      return undefined;
    }
  }

  get #isCounted(): boolean {
    return globalStepOf(this.#options.session) !== undefined;
  }

  async #step(): Promise<number> {
    return (await readGlobalStep(this.#options.session.background)) ?? 0;
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
