/**
 * The end of a job's training: the last checkpoint, the record that the job has ended, then export, evaluation and
 * outputs. `Training` calls its parts in the order of every training.
 */
import { abortError } from '../../../base/async/deadline.js';
import { describeError, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Hold } from '../../../distributed/checkpoint/protocol/save.js';
import type { EndPolicy } from '../../../training/train/core/lifecycle.js';
import type { OpenedTraining } from '../../../training/train/core/open-training.js';
import type { Face } from '../../../training/train/core/training.js';
import type { EvaluationResult } from '../../../training/train/evaluation/decisions.js';
import type { SessionRunHook } from '../../../training/train/hooks/session-run-hook.js';
import { SyncReplicasHook } from '../../../training/train/hooks/sync/sync-replicas.js';
import type { Coordinator } from '../../../training/train/recovery/coordinator.js';
import type { StepEnding } from '../../../training/train/recovery/steps/step-ending.js';
import type { JobDefinition } from '../definition/define-job.js';
import type { JobResult, LoopResult } from '../definition/job-result.js';
import { restoresBest } from '../definition/metric-options.js';
import type { TrainingGraph } from '../graph/training-graph.js';
import type { JobServices } from './job-services.js';
import { isPreempted } from './preemption.js';
import { unlessInputIsOver } from './train-loop.js';

/** The other workers stay paused until a preempted chief has left: its leave message ends the pause. */
const UNTIL_LEFT: Hold = { ms: 60_000, until: new Promise(() => {}) };
/** How long a hook may take to end. */
const END_MS = 30_000;

/** The job was stopped before its first step. */
export class StartAborted extends ShoalError {
  constructor(signal: AbortSignal) {
    super('SHOAL_ABORTED', abortError('Starting', signal).message);
  }
}

/** A ps was lost before the last checkpoint was saved. */
export class LastStepsLost extends ShoalError {
  constructor(cause: unknown) {
    super('SHOAL_TF_UNAVAILABLE', 'A ps was lost before the last checkpoint was saved', { cause });
  }
}

export interface JobEndOptions {
  readonly opened: OpenedTraining;
  readonly hooks: readonly SessionRunHook[];
  readonly services: JobServices;
  readonly coordinator: Coordinator;
  readonly ending: StepEnding;
  readonly signal: AbortSignal;
  readonly log: Log;
}

export class JobEnd implements Face {
  /** Without a last checkpoint there is no result. The task reports a failure, or the job trains again. */
  readonly policy: EndPolicy = { loopsEnd: 'after hooks', endsHooksUnsaved: false, leavesFailed: false };
  /** Training is complete, and so is what it wrote. */
  readonly forgivesHooks = true;
  readonly hookEndMs = END_MS;
  readonly loopsEndMs = END_MS;
  readonly stays: boolean;
  readonly hooks: readonly SessionRunHook[];
  readonly coordinator: Coordinator;
  readonly ending: StepEnding;
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly #job: JobDefinition;
  readonly #graph: TrainingGraph;
  readonly #opened: OpenedTraining;
  readonly #services: JobServices;
  #made: LoopResult | undefined;
  #result: JobResult | undefined;
  /** The evaluation of the checkpoint that the job ends with, if that is the best. */
  #best: EvaluationResult | undefined;

  constructor(job: JobDefinition, graph: TrainingGraph, options: JobEndOptions) {
    this.#job = job;
    this.#graph = graph;
    this.#opened = options.opened;
    this.#services = options.services;
    this.hooks = options.hooks;
    this.coordinator = options.coordinator;
    this.ending = options.ending;
    this.signal = options.signal;
    this.log = options.log;
    this.stays = (job.train.checkpoint ?? job.export) !== undefined;
  }

  /** The steps are made. */
  trained(made: LoopResult): void {
    this.#made = made;
  }

  /** What the loop has made; training that has failed has no end that needs it. */
  get #loop(): LoopResult {
    return this.#made!;
  }

  get result(): JobResult {
    return this.#result!;
  }

  /** Values that have become NaN must not replace the last good ones. */
  get #hasDiverged(): boolean {
    return this.#job.train.onNan === 'stop' && Number.isNaN(this.#loop.loss);
  }

  /** The successor of a preempted chief restores the ledger: steps that others make meanwhile would be lost. */
  get #leavesLedger(): boolean {
    return this.#loop.interrupted && isPreempted(this.signal) && this.#opened.leased !== undefined;
  }

  async endInput(hasFailed: boolean): Promise<void> {
    if (hasFailed) return;
    const { leased } = this.#opened;
    if (this.#leavesLedger) leased?.settle();
    else leased?.finish();
    // A save or export that is still running would wait for steps to pause, and none run any more.
    await this.#services.stop();
  }

  savesLast(): boolean {
    const { checkpoints, exports } = this.#services;
    return checkpoints !== undefined || exports !== undefined || this.hooks.some((hook) => hook.savesLast);
  }

  async save(): Promise<void> {
    const { server, session } = this.#opened;
    const { checkpoints } = this.#services;
    const { signal, log } = this;
    const leavesLedger = this.#leavesLedger;
    // The wait for the other workers was cut short.
    const hasWaited = this.savesLast() || server?.checkpoints.lastSteps.leads;
    if (hasWaited && signal.aborted) this.#made = { ...this.#loop, interrupted: true };
    if (this.#hasDiverged) return log('the loss is NaN: the last values are neither saved nor exported');
    const { step, interrupted } = this.#loop;
    // A ps that was stopped too has had the chief save before.
    if (checkpoints && interrupted && server && server.lostPs().length > 0)
      return log('a ps is gone: nothing can be saved any more');
    await checkpoints?.end(step, leavesLedger ? UNTIL_LEFT : undefined).catch(async (error: unknown) => {
      const isLost = server && !signal.aborted && (await session.hasLostValues());
      throw isLost ? new LastStepsLost(error) : error;
    });
    if (interrupted) return;
    if (restoresBest(this.#job)) {
      this.#best = await this.#endAtBest();
      // Stopped before the best checkpoint is the last one: that remains to be done.
      if (!this.#best && signal.aborted) {
        this.#made = { ...this.#loop, interrupted: true };
        return;
      }
    }
    await checkpoints?.recordEnd();
    await this.#services.ended().catch((error: unknown) => log(describeError(error), 'warn'));
  }

  /** The best checkpoint is the last one from here on, if the job asks for that. */
  async #endAtBest(): Promise<EvaluationResult | undefined> {
    const { server, session } = this.#opened;
    const { evaluation } = this.#services;
    try {
      // The last checkpoint may be the best.
      if (evaluation?.keepsBest) await evaluation.end(this.#loop.step);
      return await this.#services.endAtBest();
    } catch (error) {
      if (server && !this.signal.aborted && (await session.hasLostValues())) throw new LastStepsLost(error);
      throw error;
    }
  }

  async results(): Promise<void> {
    const made = this.#loop;
    const { exports, evaluation } = this.#services;
    const hasDiverged = this.#hasDiverged;
    const exported = hasDiverged ? undefined : await this.#export();
    if (!made.interrupted) await exports?.published(this.signal);
    const evaluated =
      this.#best?.results ?? (made.interrupted || hasDiverged ? undefined : await evaluation?.end(made.step));
    const lacksResults = (exports && !exported) || (evaluation && !evaluated);
    const interrupted = made.interrupted || (!hasDiverged && Boolean(lacksResults));
    const outputs = interrupted && this.#opened.server ? {} : await this.#outputs();
    this.#result = { ...made, interrupted, outputs, evaluation: evaluated, exported };
  }

  async #export(): Promise<string | undefined> {
    try {
      const step = this.#best?.step ?? this.#loop.step;
      return await this.#services.exports?.end({ ...this.#loop, step });
    } catch (error) {
      // The checkpoint is saved, and its holders are still there.
      await this.#opened.gather(this.signal);
      throw error;
    }
  }

  /** Empty if the outputs depend on an input that has ended. */
  async #outputs(): Promise<Readonly<Record<string, unknown>>> {
    const { session, runner, server } = this.#opened;
    const { outputs } = this.#graph;
    const running = server
      ? session.runUngated(outputs, { timeoutMs: session.stepLimitMs })
      : runner.run(outputs);
    const values = await running.catch((error: unknown) =>
      server && this.signal.aborted ? {} : unlessInputIsOver(error),
    );
    return Object.fromEntries(Object.entries(values).map(([name, tensor]) => [name, tensor.toArray()]));
  }

  /** Other workers may wait for tokens, unless they train on with a successor or from the newest checkpoint. */
  async abandon(error: unknown): Promise<void> {
    await this.#services.stop();
    if (error instanceof StartAborted || error instanceof LastStepsLost) return;
    for (const hook of this.hooks)
      if (hook instanceof SyncReplicasHook)
        await hook
          .release(this.#opened.runner)
          .catch((failure: unknown) => this.log(describeError(failure), 'warn'));
  }

  async close(): Promise<void> {
    this.ending.finished();
    try {
      await this.#services[Symbol.asyncDispose]();
    } finally {
      try {
        await this.#opened[Symbol.asyncDispose]();
      } finally {
        await this.#services.closeWriters();
      }
    }
  }

  async leave(): Promise<void> {
    const { stays: stay, signal } = this;
    if (!this.result.interrupted) await this.#opened.finish({ stay, signal });
    else if (!isPreempted(signal)) await this.#opened.gather(AbortSignal.abort());
  }
}
