/** Trains a job: on a cluster as one of its workers, or in this process alone. */
import { setMaxListeners } from 'node:events';
import { abortError, withDeadline } from '../../../base/async/deadline.js';
import { describeError, ShoalError } from '../../../base/errors/errors.js';
import type { Hold } from '../../../distributed/checkpoint/protocol/save.js';
import type { Fetches } from '../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { explainInputError } from '../../../training/input/files/input-errors.js';
import { waitForLastSteps } from '../../../training/train/checkpoints/retrying-saver.js';
import { persist, runWithHooks } from '../../../training/train/core/hooked-run.js';
import { type OpenedTraining, openTraining } from '../../../training/train/core/open-training.js';
import { LeasedInputHook } from '../../../training/train/hooks/leased-input.js';
import { SessionRunContext, type SessionRunHook } from '../../../training/train/hooks/session-run-hook.js';
import { SummaryWriters } from '../../../training/train/hooks/summary-writers.js';
import { SyncReplicasHook } from '../../../training/train/hooks/sync/sync-replicas.js';
import { Coordinator } from '../../../training/train/recovery/coordinator.js';
import { StepEnding } from '../../../training/train/recovery/steps/step-ending.js';
import { StepGate } from '../../../training/train/recovery/steps/step-gate.js';
import type { Server } from '../../../training/train/task/server.js';
import type { JobDefinition } from '../definition/define-job.js';
import type { JobResult, LoopResult } from '../definition/job-result.js';
import { findEndOfJob } from '../directory/ended-job.js';
import type { TrainingGraph } from '../graph/training-graph.js';
import type { LocalEvaluation } from '../results/local-evaluation.js';
import type { JobCheckpoints } from './checkpointing.js';
import { jobHooks } from './job-hooks.js';
import { isPreempted } from './preemption.js';
import { trainLoop, unlessInputIsOver } from './train-loop.js';

export interface TrainJobOptions {
  readonly server?: Server;
  /** The task's own directory. */
  readonly dir: string;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly onStep?: (step: number) => void;
}

/** A synchronous step takes as long as the slowest worker, which may be one that is being replaced. */
const SYNC_STEP_FLOOR_MS = 600_000;
/** The other workers stay paused until a preempted chief has left: its leave message ends the pause. */
const UNTIL_LEFT: Hold = { ms: 60_000, until: new Promise(() => {}) };
/** How long a hook may take to end. */
const END_MS = 30_000;

export async function trainJob(
  job: JobDefinition,
  parts: TrainingGraph,
  options: TrainJobOptions,
): Promise<JobResult> {
  for (;;) {
    try {
      return await trainOnce(job, parts, options);
    } catch (error) {
      if (!(error instanceof LastStepsLost)) throw await explainInputError(error, parts);
      options.log(`${describeError(error)}; training resumes from the newest checkpoint`);
    }
  }
}

async function trainOnce(
  job: JobDefinition,
  parts: TrainingGraph,
  options: TrainJobOptions,
): Promise<JobResult> {
  const { server, dir, signal, log } = options;
  const { checkpoint, inflight = 1, stepTimeoutSecs } = job.train;
  const { graph, globalStep, localInit, shards, sync, summaryOp, inputLine } = parts;
  const isChief = server?.isChief ?? true;
  if (inputLine) log(`input: ${inputLine}`);
  const coordinator = new Coordinator({ log });
  const stop = AbortSignal.any([signal, coordinator.signal]);
  using ending = new StepEnding(signal);
  // A background task has failed: steps are waited for only if it matters whether they are applied.
  const onFailure = () => {
    if (shards) ending.stop(coordinator.signal);
    else ending.cancel(coordinator.signal.reason);
  };
  coordinator.signal.addEventListener('abort', onFailure, { once: true });
  // Every run and every part of a restore adds a listener.
  setMaxListeners(0, stop);
  // A job without checkpoints, exports or summaries does not load their modules.
  const checkpoints =
    checkpoint && isChief
      ? new (await import('./checkpointing.js')).JobCheckpoints(job, checkpoint, {
          dir,
          log,
          signal,
          onError: (error) => coordinator.requestStop(error),
        })
      : undefined;
  // Loaded at the start, not when it is needed: the package may be replaced while the job runs.
  const exporting = job.export && isChief ? await import('../results/exporting.js') : undefined;
  // On a cluster an evaluator task evaluates the checkpoints.
  const evaluating = job.evaluate && !server ? await import('../results/local-evaluation.js') : undefined;
  const writers = new SummaryWriters();
  // Event files that cannot be written do not fail the job.
  const closeWriters = () =>
    writers
      .close()
      .catch((error: unknown) => log(`some summaries could not be written: ${describeError(error)}`));
  const summaries =
    summaryOp && isChief
      ? (await import('../graph/summaries.js')).summaryHooks({
          ...job.train.summaries,
          graph,
          summaryOp,
          dir,
          writers,
        })
      : [];
  const syncHooks = sync ? [new SyncReplicasHook(sync, { isChief, log, signal })] : [];
  const failedStart = async (error: unknown) => {
    await closeWriters();
    throw error;
  };
  const own = await jobHooks(job, parts, {
    isChief,
    writers,
    log,
    ...(server && { task: server.task.task }),
  }).catch(failedStart);
  const hooks: SessionRunHook[] = [
    ...(shards ? [new LeasedInputHook(shards, inflight)] : []),
    ...syncHooks,
    ...summaries,
    ...own,
  ];
  const training = await openTraining({
    graph,
    server,
    isChief,
    hooks,
    coordinator,
    ...(server ? {} : { gate: new StepGate() }),
    values: (runner) => ({
      restore:
        checkpoints &&
        ((missing: readonly Variable[], again: boolean) => checkpoints.restore(runner, missing, again)),
      newestStep: checkpoints && server && (() => checkpoints.newestStep(runner)),
      localInit: localInit && (async () => void (await runner.run(localInit))),
    }),
    recovery: job.train.recovery,
    onRecovery: job.callbacks?.onRecover,
    stepMs: stepTimeoutSecs === undefined ? undefined : stepTimeoutSecs * 1000,
    stepFloorMs: sync ? SYNC_STEP_FLOOR_MS : undefined,
    needsWorkers: sync !== undefined,
    savesCheckpoints: checkpoint !== undefined,
    signal: ending.signal,
    stop,
    log,
  }).catch(failedStart);
  // A synchronous step may wait for workers that have stopped. Cut off, it is not applied; its records are uncertain.
  ending.mayFinish = () => !(sync && !shards) && !training.session.isRecovering;
  let result: JobResult;
  let evaluation: LocalEvaluation | undefined;
  try {
    const { session, betweenSteps, saving, recoveryGuard, gate } = training;
    const exports =
      job.export && exporting
        ? new exporting.JobExports(job, job.export, {
            session: betweenSteps,
            dir,
            recoveryGuard,
            signal,
            log,
          })
        : undefined;
    evaluation =
      evaluating &&
      new evaluating.LocalEvaluation(job, {
        session: betweenSteps,
        dir,
        writers,
        signal,
        log,
        onError: (error) => coordinator.requestStop(error),
      });
    await session.ready().catch((error: unknown) => {
      throw signal.aborted ? new StartAborted(signal) : error;
    });
    const first = (await session.runUngated(globalStep.toOutput())).number();
    // A job that has stopped early is finished, as at its last step: its tasks do what remains.
    const hasEnded = first < job.train.lastStep && (await hasJobEnded(job, training, checkpoints, first));
    if (hasEnded) log(`training has ended at step ${first}, before the last step (${job.train.lastStep})`);
    const lastStep = hasEnded ? first : job.train.lastStep;
    checkpoints?.begin(saving, first, lastStep);
    exports?.begin(first);
    evaluation?.begin(first);
    const stopSchedules = () => Promise.all([checkpoints?.stop(), exports?.stop(), evaluation?.abandon()]);
    let isStopRequested = false;
    const step = stepMaker(training, hooks, stop, () => {
      isStopRequested = true;
    });
    let made: LoopResult;
    try {
      made = await trainLoop(session, parts, {
        ...job.train,
        lastStep,
        first,
        step,
        signal: stop,
        log,
        isStopRequested: () => isStopRequested,
        onStep: (now) => {
          options.onStep?.(now);
          checkpoints?.onStep(now);
          exports?.onStep(now);
          evaluation?.onStep(now);
        },
      });
      ending.finished();
      gate?.ended();
      coordinator.raiseRequestedException();
    } catch (error) {
      await stopSchedules();
      throw error;
    }
    // The successor of a preempted chief restores the ledger: steps that others make meanwhile would be lost.
    const isLeavingLedger = made.interrupted && isPreempted(signal) && training.leased !== undefined;
    if (isLeavingLedger) training.leased?.settle();
    else training.leased?.finish();
    // The chief of synchronous training makes the steps of the others possible.
    if (checkpoints || exports || (sync && isChief)) {
      // A save or export that is still running would wait for steps to pause, and none run any more.
      await stopSchedules();
      await waitForLastSteps(training.runner, { signal, log });
      if (signal.aborted) made = { ...made, interrupted: true };
    }
    // Values that have become NaN must not replace the last good ones.
    const hasDiverged = job.train.onNan === 'stop' && Number.isNaN(made.loss);
    // A ps that was stopped too has had the chief save before.
    const isLate = made.interrupted && server !== undefined && server.lostPs().length > 0;
    if (hasDiverged) log('the loss is NaN: the last values are neither saved nor exported');
    else if (isLate && checkpoints) log('a ps is gone: nothing can be saved any more');
    else
      await checkpoints
        ?.end(made.step, isLeavingLedger ? UNTIL_LEFT : undefined)
        .catch(async (error: unknown) => {
          const isLost = server && !signal.aborted && (await session.hasLostValues());
          throw isLost ? new LastStepsLost(error) : error;
        });
    if (!made.interrupted && !hasDiverged) await checkpoints?.recordEnd();
    const exported = hasDiverged
      ? undefined
      : await exports?.end(made).catch(async (error: unknown) => {
          // The checkpoint is saved, and its holders are still there.
          await training.gather(signal);
          throw error;
        });
    const evaluated = made.interrupted || hasDiverged ? undefined : await evaluation?.end(made.step);
    const lacksResults = (exports && !exported) || (evaluation && !evaluated);
    const interrupted = made.interrupted || (!hasDiverged && Boolean(lacksResults));
    const outputs = interrupted && server ? {} : await outputsOf(training, parts, signal);
    await endHooks(training, hooks, coordinator, log);
    result = { ...made, interrupted, outputs, evaluation: evaluated, exported };
  } catch (error) {
    if (!(error instanceof StartAborted || error instanceof LastStepsLost)) {
      for (const hook of syncHooks)
        await hook.release(training.runner).catch((failure: unknown) => log(describeError(failure)));
      await endHooks(training, [], coordinator, log);
    }
    // The error of a background task is the cause of the failed run.
    coordinator.raiseRequestedException();
    throw error;
  } finally {
    coordinator.requestStop();
    ending.finished();
    await evaluation?.[Symbol.asyncDispose]();
    await training[Symbol.asyncDispose]();
    await closeWriters();
  }
  if (!result.interrupted) {
    const stay = (checkpoint ?? job.export) !== undefined;
    await training.finish({ stay, signal });
  } else if (!isPreempted(signal)) await training.gather(AbortSignal.abort());
  await job.callbacks?.onEnd?.(result);
  return result;
}

/** Whether the record beside the checkpoints says so; on a worker, that on the disks of the others. */
async function hasJobEnded(
  job: JobDefinition,
  { runner, server }: OpenedTraining,
  checkpoints: JobCheckpoints | undefined,
  step: number,
): Promise<boolean> {
  if (checkpoints) return checkpoints.hasEnded(runner, step);
  const end = server && job.train.checkpoint && (await findEndOfJob(job, server));
  return end !== undefined && step >= end.step;
}

/** The job was stopped before its first step. */
export class StartAborted extends ShoalError {
  constructor(signal: AbortSignal) {
    super('SHOAL_ABORTED', abortError('Starting', signal).message);
  }
}

/** A ps was lost before the last checkpoint was saved. */
class LastStepsLost extends ShoalError {
  constructor(cause: unknown) {
    super('SHOAL_TF_UNAVAILABLE', 'A ps was lost before the last checkpoint was saved', { cause });
  }
}

/** Returns a function that makes one step with its hooks, and retries it after each loss. */
function stepMaker(
  { session }: OpenedTraining,
  hooks: readonly SessionRunHook[],
  signal: AbortSignal,
  onStopRequested: () => void,
) {
  // The step is complete when a hook reads the global step: a loss during that read must not repeat the step.
  const reader = {
    graph: session.graph,
    run: <const F extends Fetches>(fetches: F, how?: RunOptions) => session.runUngated(fetches, how),
  };
  return async <const F extends Fetches>(fetches: F) => {
    const context = new SessionRunContext(reader, { fetches }, signal);
    const values = await persist(session, () => runWithHooks({ hooks, context, session, signal }, fetches));
    if (context.stopRequested) onStopRequested();
    return values;
  };
}

/** Empty if the outputs depend on an input that has ended. */
async function outputsOf(
  { session, runner, server }: OpenedTraining,
  parts: TrainingGraph,
  signal: AbortSignal,
) {
  const running = server
    ? session.runUngated(parts.outputs, { timeoutMs: session.stepLimitMs })
    : runner.run(parts.outputs);
  const values = await running.catch((error: unknown) =>
    server && signal.aborted ? {} : unlessInputIsOver(error),
  );
  return Object.fromEntries(Object.entries(values).map(([name, tensor]) => [name, tensor.toArray()]));
}

/** Failures are only logged: training is complete, and so is what it wrote. */
async function endHooks(
  { runner }: OpenedTraining,
  hooks: readonly SessionRunHook[],
  coordinator: Coordinator,
  log: (line: string) => void,
): Promise<void> {
  for (const hook of hooks) {
    // A hook may throw before it returns a promise.
    const ending = Promise.resolve().then(() => hook.end?.(runner));
    await withDeadline(ending, `The end of ${hook.constructor.name}`, { timeoutMs: END_MS }).catch(
      (error: unknown) => log(`error while ending a hook: ${describeError(error)}`),
    );
  }
  coordinator.requestStop();
  await coordinator.join([], { stopGracePeriodSecs: END_MS / 1000, ignoreLiveTasks: true });
}
