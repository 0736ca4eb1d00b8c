/**
 * Saves checkpoints: one at the start, others by seconds or steps, the last at the end. A save that fails is spoken
 * of and tried again, and training goes on meanwhile: it is never the end of it.
 *
 * In the background the loop does not wait for a save; one begins only when the one before has ended.
 */
import { invalid, messageOf } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import type { FileWriter } from '../../summary/file-writer.js';
import type { Tensor } from '../../tensor/tensor.js';
import { GraphKeys } from '../../variables/collections.js';
import { exportMetaGraph } from '../../variables/meta-graph.js';
import { RetryingSaver } from '../checkpoints/retrying-saver.js';
import { writeGraph } from '../checkpoints/write-graph.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { SaverLike, TrainingRunner } from '../recovery/training-runner.js';
import { globalStepRead, readStep } from './global-step.js';
import {
  type HookSetup,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from './session-run-hook.js';
import { SecondOrStepTimer } from './timer.js';

/** Who is told of checkpoints. */
export interface CheckpointSaverListener {
  begin?(): void | Promise<void>;
  beforeSave?(session: TrainingRunner, globalStep: number): void | Promise<void>;
  /** `true` asks for the end of training. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a listener that wants nothing returns nothing
  afterSave?(session: TrainingRunner, globalStep: number): boolean | void | Promise<boolean | void>;
  end?(session: TrainingRunner, globalStep: number): void | Promise<void>;
}

export interface CheckpointSaverOptions {
  readonly checkpointDir: string;
  readonly saveSecs?: number | null | undefined;
  readonly saveSteps?: number | null | undefined;
  /** Given, or that of the scaffold, or the one in the graph's collection of savers. */
  readonly saver?: SaverLike | undefined;
  readonly scaffold?: { readonly saver?: SaverLike | undefined } | undefined;
  readonly checkpointBasename?: string;
  readonly listeners?: readonly CheckpointSaverListener[];
  /** Whether training goes on while a checkpoint is written. */
  readonly background?: boolean;
  /** How often the last save is tried. */
  readonly lastAttempts?: number;
  readonly now?: () => number;
}

export class CheckpointSaverHook extends SessionRunHook<Tensor<'int64'>> {
  readonly #options: CheckpointSaverOptions;
  readonly #timer: SecondOrStepTimer;
  readonly #listeners: readonly CheckpointSaverListener[];
  #graph!: Graph;
  #step!: Output<'int64'>;
  #writer!: FileWriter;
  #retrying!: RetryingSaver;
  #coordinator: Coordinator | undefined;
  #saving: Promise<void> | undefined;
  #hasGraph = false;
  #log!: (line: string) => void;

  constructor(options: CheckpointSaverOptions) {
    super();
    this.#options = options;
    const { saveSecs, saveSteps, now } = options;
    this.#timer = new SecondOrStepTimer({ everySecs: saveSecs, everySteps: saveSteps, now });
    this.#listeners = options.listeners ?? [];
  }

  /** The step of the newest checkpoint that this hook knows to be committed. */
  get savedStep(): number | undefined {
    return this.#retrying?.savedStep;
  }

  override async begin({ graph, writers, log }: HookSetup): Promise<void> {
    this.#graph = graph;
    this.#log = log;
    this.#step = globalStepRead(graph, 'CheckpointSaverHook');
    const { checkpointDir, checkpointBasename = 'model.ckpt', now } = this.#options;
    this.#writer = writers.get(checkpointDir);
    this.#retrying = new RetryingSaver({
      saver: () => this.#saver(),
      path: `${checkpointDir}/${checkpointBasename}`,
      writer: this.#writer,
      log,
      now,
    });
    for (const listener of this.#listeners) await listener.begin?.();
  }

  override async afterCreateSession(session: TrainingRunner, coordinator: Coordinator): Promise<void> {
    this.#coordinator = coordinator;
    // That there is none is the caller's mistake, not a save that fails.
    this.#saver();
    if (!this.#hasGraph) {
      this.#hasGraph = true;
      this.#writer.addGraph(this.#graph);
      this.#writer.addMetaGraph(exportMetaGraph({ graph: this.#graph }));
      // It is there for people: training does not end for the want of it.
      await writeGraph(this.#graph, this.#options.checkpointDir).catch((error: unknown) =>
        this.#log(`the graph could not be written: ${messageOf(error)}`),
      );
    }
    if (this.#saving) return;
    const step = await readStep(session, this.#step);
    this.#timer.update(step);
    // What was just restored is a checkpoint already.
    if (!(await this.#retrying.findSaved(session, step))) await this.#begin(session, step);
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#step };
  }

  override async afterRun(context: SessionRunContext, values: SessionRunValues<Tensor<'int64'>>) {
    if (this.#saving) return;
    if (!this.#isDue(values.results.number() + 1)) return;
    const step = await readStep(context.session, this.#step);
    if (this.#saving || !this.#isDue(step)) return;
    this.#timer.update(step);
    if (await this.#begin(context.session, step)) context.requestStop();
  }

  override async end(session: TrainingRunner): Promise<void> {
    await this.#saving;
    const step = await this.#retrying.lastStep(session, await readStep(session, this.#step));
    const isDue = step !== this.savedStep;
    if (isDue) for (const listener of this.#listeners) await listener.beforeSave?.(session, step);
    const saved = await this.#retrying.saveLast(session, step, this.#options.lastAttempts);
    if (isDue && saved) await this.#notifySaved(session, step);
    for (const listener of this.#listeners) await listener.end?.(session, step);
  }

  /** Saves, or begins to where it is done in the background; gives whether training is to end. */
  async #begin(session: TrainingRunner, step: number): Promise<boolean> {
    if (!this.#options.background) return this.#save(session, step);
    this.#saving = this.#save(session, step)
      .then(
        (stop) => {
          if (stop) this.#coordinator?.requestStop();
        },
        // A listener has failed: that is the user's own code, and nobody awaits this.
        (error: unknown) => this.#coordinator?.requestStop(error),
      )
      .finally(() => {
        this.#saving = undefined;
      });
    return false;
  }

  async #save(session: TrainingRunner, step: number): Promise<boolean> {
    for (const listener of this.#listeners) await listener.beforeSave?.(session, step);
    return (await this.#retrying.save(session, step)) && this.#notifySaved(session, step);
  }

  /** Gives whether a listener asks for the end. */
  async #notifySaved(session: TrainingRunner, step: number): Promise<boolean> {
    let stop = false;
    for (const listener of this.#listeners) {
      if ((await listener.afterSave?.(session, step)) === true) stop = true;
    }
    return stop;
  }

  #isDue(step: number): boolean {
    return this.#retrying.hasFailed ? this.#retrying.isRetryDue : this.#timer.shouldTriggerForStep(step);
  }

  #saver(): SaverLike {
    const { saver, scaffold } = this.#options;
    const given = saver ?? scaffold?.saver;
    if (given) return given;
    const [only, ...others] = this.#graph.getCollection<SaverLike>(GraphKeys.savers);
    if (!only) {
      throw invalid('CheckpointSaverHook has no saver', {
        hint: 'Give it one, or a scaffold with one, or add one to the graph: { saver: new Saver() }.',
      });
    }
    if (others.length > 0)
      throw invalid('The graph has several savers: tell CheckpointSaverHook which: { saver }');
    return only;
  }
}
