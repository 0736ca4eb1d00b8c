/**
 * Saves checkpoints: at the start, every so many seconds or steps, and at the end. A failed save is logged and retried;
 * it never stops training.
 *
 * With `background`, training does not wait for a save; a save starts only after the previous one has ended.
 */

import { describeError, invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import type { Log } from '../../../base/text/log.js';
import type { Hold } from '../../../distributed/checkpoint/protocol/save.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { exportMetaGraph } from '../../../tensorflow/variables/meta-graph.js';
import { LAST_SAVE_MS, RetryingSaver, readLastStep } from '../checkpoints/retrying-saver.js';
import { atEnd, every, SaveSchedule, whenLeaving } from '../checkpoints/save-schedule.js';
import { writeGraph } from '../checkpoints/write-graph.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';
import { currentStep, fetchedStep, globalStepRead } from './global-step.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';
import { checkInterval } from './timer.js';

/** Called before and after each save. */
export interface CheckpointSaverListener {
  /** Called before the session is created. */
  begin?(): void | Promise<void>;
  /** Called before a save. */
  beforeSave?(session: TrainingRunner, globalStep: number): void | Promise<void>;
  /** Called after a save; `true` requests the end of training. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a listener without a result returns nothing
  afterSave?(session: TrainingRunner, globalStep: number): boolean | void | Promise<boolean | void>;
  /** Called after the last save. */
  end?(session: TrainingRunner, globalStep: number): void | Promise<void>;
}

export interface CheckpointSaverOptions {
  readonly checkpointDir: string;
  /** Seconds between saves; default: none. Set this or `saveSteps`. */
  readonly saveSecs?: number | null;
  /** Steps between saves; default: none. */
  readonly saveSteps?: number | null;
  /** The saver; default: the scaffold's, or the one in the graph's collection of savers. */
  readonly saver?: SaverLike;
  /** The scaffold with the saver; default: none. */
  readonly scaffold?: { readonly saver?: SaverLike | undefined } | undefined;
  /** The name of checkpoints, before the step; default: `model.ckpt`. */
  readonly checkpointBasename?: string;
  /** Called before and after each save; default: none. */
  readonly listeners?: readonly CheckpointSaverListener[];
  /** Whether training continues while a checkpoint is written. Default: false. */
  readonly background?: boolean;
  /** Attempts of the last save. Default: 3, and then see `lastSaveSecs`. */
  readonly lastAttempts?: number;
  /**
   * How long the last save is tried again after these attempts if a disk is full or does not work, or a task cannot be
   * reached. Default: 1800, or 0 if `lastAttempts` is set.
   */
  readonly lastSaveSecs?: number;
  /** A monotonic clock, in milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<CheckpointSaverOptions> = {
  checkpointDir: true,
  saveSecs: true,
  saveSteps: true,
  saver: true,
  scaffold: true,
  checkpointBasename: true,
  listeners: true,
  background: true,
  lastAttempts: true,
  lastSaveSecs: true,
  now: true,
};

export class CheckpointSaverHook extends SessionRunHook<Tensor<'int64'>> {
  /** How long the last save may be tried again. @internal */
  override readonly endMs: number;
  /** @internal */
  override readonly savesLast = true;
  readonly #options: CheckpointSaverOptions;
  readonly #schedule: SaveSchedule;
  readonly #listeners: readonly CheckpointSaverListener[];
  #graph!: Graph;
  #step!: Output<'int64'>;
  #writer!: FileWriter;
  #retrying!: RetryingSaver;
  #coordinator: Coordinator | undefined;
  #signal: AbortSignal | undefined;
  #saving: Promise<void> | undefined;
  #hasGraph = false;
  #isTidyDue = false;
  #log!: Log;

  constructor(given: OrNull<CheckpointSaverOptions>) {
    super();
    const options = knownOptions(given, OPTIONS, 'a CheckpointSaverHook');
    this.#options = options;
    const { saveSecs, saveSteps, now, lastAttempts } = options;
    const { lastSaveSecs = lastAttempts === undefined ? LAST_SAVE_MS / 1000 : 0 } = options;
    this.endMs = lastSaveSecs * 1000;
    checkInterval({ everySecs: saveSecs, everySteps: saveSteps });
    const intervals = every({ secs: saveSecs, steps: saveSteps });
    this.#schedule = new SaveSchedule([...intervals, atEnd, whenLeaving], now);
    this.#listeners = options.listeners ?? [];
  }

  /** The step of the newest checkpoint that this hook knows to be committed. */
  get savedStep(): number | undefined {
    return this.#retrying?.savedStep;
  }

  override async begin({ graph, writers, log, signal }: HookSetup): Promise<void> {
    this.#graph = graph;
    this.#signal = signal;
    this.#log = log;
    this.#step = globalStepRead(graph, 'CheckpointSaverHook');
    const { checkpointDir, checkpointBasename = 'model.ckpt', now } = this.#options;
    this.#writer = writers.get(checkpointDir);
    this.#retrying = new RetryingSaver({
      saver: () => this.#saver(),
      path: `${checkpointDir}/${checkpointBasename}`,
      writer: this.#writer,
      schedule: this.#schedule,
      log,
      now,
    });
    for (const listener of this.#listeners) await listener.begin?.();
  }

  override async afterCreateSession(session: TrainingRunner, coordinator: Coordinator): Promise<void> {
    this.#coordinator = coordinator;
    // A missing saver is the caller's mistake: it throws here, and is not retried like a failed save.
    this.#saver();
    if (!this.#hasGraph) {
      this.#hasGraph = true;
      this.#writer.addGraph(this.#graph);
      this.#writer.addMetaGraph(exportMetaGraph({ graph: this.#graph }));
      // The file is informational: training continues without it.
      await writeGraph(this.#graph, this.#options.checkpointDir).catch((error: unknown) =>
        this.#log(`graph.pbtxt could not be written: ${describeError(error)}`),
      );
    }
    this.#retrying.savesWhenLeaving(session, (hold) => this.#saveHeld(session, hold));
    if (this.#saving) return;
    const step = await currentStep(session);
    this.#schedule.begin(step);
    // A state that was just restored is a checkpoint already.
    if (!(await this.#retrying.findSaved(session, step))) return void (await this.#begin(session, step));
    this.#isTidyDue = true;
  }

  /** Other hooks pin the checkpoints that must stay when the session has been created: this is after the first step. */
  async #tidy(session: TrainingRunner): Promise<void> {
    if (!this.#isTidyDue) return;
    this.#isTidyDue = false;
    const tidied = this.#retrying.tidy(session);
    if (!this.#options.background) await tidied;
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#step };
  }

  override async afterRun(context: SessionRunContext, values: SessionRunValues<Tensor<'int64'>>) {
    const seen = fetchedStep(context, values);
    await this.#tidy(context.session);
    if (this.#saving || this.#retrying.held || !this.#schedule.isDue('step', seen + 1)) return;
    const step = await currentStep(context.session);
    if (this.#saving || !this.#schedule.isDue('step', step)) return;
    this.#schedule.begin(step);
    if (await this.#begin(context.session, step)) context.requestStop();
  }

  override async end(session: TrainingRunner): Promise<void> {
    this.#retrying.leavesNoMore(session);
    await this.#saving;
    // Saved before a ps has left: its values are gone, and cannot be read any more.
    const held = await this.#retrying.held;
    if (held !== undefined) {
      for (const listener of this.#listeners) await listener.end?.(session, held);
      return;
    }
    const seen = await currentStep(session);
    const last = await readLastStep(session, seen, this.#log);
    const step = last ?? seen;
    const isDue = last === undefined || last !== this.savedStep;
    if (isDue) for (const listener of this.#listeners) await listener.beforeSave?.(session, step);
    const { lastAttempts: attempts } = this.#options;
    const options = { attempts, patienceMs: this.endMs, signal: this.#signal };
    const saved = await this.#retrying.saveLast(session, last, options);
    if (isDue && saved) await this.#notifySaved(session, step);
    for (const listener of this.#listeners) await listener.end?.(session, step);
    // The steps since the newest checkpoint are lost.
    if (!saved) throw this.#retrying.failure;
  }

  /** Saves, or starts a save in the background. Returns whether a listener requests the end of training. */
  async #begin(session: TrainingRunner, step: number): Promise<boolean> {
    if (!this.#options.background) return this.#save(session, step);
    this.#saving = this.#save(session, step)
      .then(
        (stop) => {
          if (stop) this.#coordinator?.requestStop();
        },
        // A listener has failed. Nothing awaits this promise, so the coordinator keeps the error.
        (error: unknown) => this.#coordinator?.requestStop(error),
      )
      .finally(() => {
        this.#saving = undefined;
      });
    return false;
  }

  async #save(session: TrainingRunner, step: number): Promise<boolean> {
    for (const listener of this.#listeners) await listener.beforeSave?.(session, step);
    const isSaved = await this.#retrying.save(session, step);
    this.#schedule.ended();
    return isSaved && this.#notifySaved(session, step);
  }

  /** Saves before a ps leaves. */
  async #saveHeld(session: TrainingRunner, hold: Hold): Promise<number | undefined> {
    await this.#saving;
    const step = await currentStep(session);
    for (const listener of this.#listeners) await listener.beforeSave?.(session, step);
    const saved = await this.#retrying.saveHeld(session, step, hold);
    if (saved !== undefined && (await this.#notifySaved(session, saved))) this.#coordinator?.requestStop();
    return saved;
  }

  /** Returns whether a listener requests the end of training. */
  async #notifySaved(session: TrainingRunner, step: number): Promise<boolean> {
    let stop = false;
    for (const listener of this.#listeners) {
      if ((await listener.afterSave?.(session, step)) === true) stop = true;
    }
    return stop;
  }

  #saver(): SaverLike {
    const { saver, scaffold } = this.#options;
    const given = saver ?? scaffold?.saver;
    if (given) return given;
    const [only, ...others] = this.#graph.getCollection<SaverLike>(GraphKeys.savers);
    if (!only) {
      throw invalid('CheckpointSaverHook has no saver', {
        hint: 'Pass { saver: new Saver() } or a scaffold with a saver, or add a saver to the graph.',
      });
    }
    if (others.length > 0)
      throw invalid('The graph has several savers: pass one to CheckpointSaverHook: { saver }');
    return only;
  }
}
