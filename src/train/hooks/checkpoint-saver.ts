/**
 * Saves checkpoints: one at the start, others by seconds or steps, the last at the end. A save that fails is spoken
 * of and tried again, and training goes on meanwhile: it is never the end of it.
 *
 * In the background the loop does not wait for a save; one begins only when the one before has ended.
 */
import { backoffMs } from '../../async/backoff.js';
import { sleep } from '../../async/deadline.js';
import { invalid, messageOf } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import type { FileWriter } from '../../summary/file-writer.js';
import type { Tensor } from '../../tensor/tensor.js';
import { GraphKeys } from '../../variables/collections.js';
import { exportMetaGraph } from '../../variables/meta-graph.js';
import type { Coordinator } from '../coordinator.js';
import type { SaverLike, TrainingRunner } from '../saver-like.js';
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

const RETRY = { baseMs: 1000, maxMs: 60_000 };
const LAST_RETRY = { baseMs: 200, maxMs: 5_000 };

export class CheckpointSaverHook extends SessionRunHook<Tensor<'int64'>> {
  readonly #options: CheckpointSaverOptions;
  readonly #timer: SecondOrStepTimer;
  readonly #now: () => number;
  readonly #listeners: readonly CheckpointSaverListener[];
  #graph!: Graph;
  #step!: Output<'int64'>;
  #writer!: FileWriter;
  #log!: (line: string) => void;
  #coordinator: Coordinator | undefined;
  #saving: Promise<void> | undefined;
  #savedStep: number | undefined;
  #failures = 0;
  #retryAt = Number.NEGATIVE_INFINITY;
  #hasGraph = false;

  constructor(options: CheckpointSaverOptions) {
    super();
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#timer = new SecondOrStepTimer({
      everySecs: options.saveSecs,
      everySteps: options.saveSteps,
      now: this.#now,
    });
    this.#listeners = options.listeners ?? [];
  }

  /** The step of the newest checkpoint that this hook knows to be committed. */
  get savedStep(): number | undefined {
    return this.#savedStep;
  }

  override async begin({ graph, writers, log }: HookSetup): Promise<void> {
    this.#graph = graph;
    this.#step = globalStepRead(graph, 'CheckpointSaverHook');
    this.#writer = writers.get(this.#options.checkpointDir);
    this.#log = log;
    for (const listener of this.#listeners) await listener.begin?.();
  }

  override async afterCreateSession(session: TrainingRunner, coordinator: Coordinator): Promise<void> {
    this.#coordinator = coordinator;
    if (!this.#hasGraph) {
      this.#hasGraph = true;
      this.#writer.addGraph(this.#graph);
      this.#writer.addMetaGraph(exportMetaGraph({ graph: this.#graph }));
    }
    const step = await readStep(session, this.#step);
    this.#timer.update(step);
    if (await this.#isSaved(session, step)) this.#savedStep = step;
    else await this.#begin(session, step);
  }

  /** What was just restored is a checkpoint already. */
  async #isSaved(session: TrainingRunner, step: number): Promise<boolean> {
    try {
      const newest = await this.#saver().latest(session, this.#options.checkpointDir);
      return newest?.endsWith(`/${this.#basename}-${step}`) ?? false;
    } catch (error) {
      this.#log(`the newest checkpoint could not be looked up: ${messageOf(error)}`);
      return false;
    }
  }

  override beforeRun(): SessionRunArgs {
    return { fetches: this.#step };
  }

  override async afterRun(context: SessionRunContext, values: SessionRunValues<Tensor<'int64'>>) {
    if (this.#saving) return;
    if (this.#failures > 0) {
      if (this.#now() < this.#retryAt) return;
    } else if (!this.#timer.shouldTriggerForStep(values.results.number() + 1)) return;
    const step = await readStep(context.session, this.#step);
    if (this.#saving || (this.#failures === 0 && !this.#timer.shouldTriggerForStep(step))) return;
    this.#timer.update(step);
    if (await this.#begin(context.session, step)) context.requestStop();
  }

  override async end(session: TrainingRunner): Promise<void> {
    await this.#saving;
    const step = await readStep(session, this.#step);
    const { lastAttempts = 3 } = this.#options;
    for (let attempt = 0; step !== this.#savedStep && attempt < lastAttempts; attempt++) {
      if (attempt > 0) await sleep(backoffMs(attempt, LAST_RETRY));
      await this.#save(session, step);
    }
    if (step !== this.#savedStep) {
      this.#log(
        `THE LAST CHECKPOINT, of step ${step}, COULD NOT BE SAVED; the newest is of ${
          this.#savedStep === undefined ? 'an earlier run, if any' : `step ${this.#savedStep}`
        }`,
      );
    }
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
    const { checkpointDir } = this.#options;
    for (const listener of this.#listeners) await listener.beforeSave?.(session, step);
    try {
      const path = await this.#saver().save(session, `${checkpointDir}/${this.#basename}`, {
        globalStep: step,
      });
      this.#failures = 0;
      this.#savedStep = step;
      this.#writer.addSessionLog('checkpoint', step, { checkpointPath: path });
      this.#log(`saved ${path}`);
    } catch (error) {
      const waitMs = backoffMs(this.#failures, RETRY);
      this.#failures += 1;
      this.#retryAt = this.#now() + waitMs;
      this.#log(
        `SAVING the checkpoint of step ${step} FAILED (${this.#failures} in a row): ${messageOf(error)}; training goes on, the next try is in ${Math.ceil(waitMs / 1000)} s`,
      );
      return false;
    }
    let stop = false;
    for (const listener of this.#listeners) {
      if ((await listener.afterSave?.(session, step)) === true) stop = true;
    }
    return stop;
  }

  get #basename(): string {
    return this.#options.checkpointBasename ?? 'model.ckpt';
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
