/** Trains a job: on a cluster as one of its workers, or in this process alone. */
import { setMaxListeners } from 'node:events';
import { describeError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Fetches } from '../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { explainInputError } from '../../../training/input/files/input-errors.js';
import { persist, runWithHooks } from '../../../training/train/core/hooked-run.js';
import { type OpenedTraining, openTraining } from '../../../training/train/core/open-training.js';
import { Training } from '../../../training/train/core/training.js';
import { LeasedInputHook } from '../../../training/train/hooks/leased-input.js';
import { SessionRunContext, type SessionRunHook } from '../../../training/train/hooks/session-run-hook.js';
import { SyncReplicasHook } from '../../../training/train/hooks/sync/sync-replicas.js';
import { Coordinator } from '../../../training/train/recovery/coordinator.js';
import { StepEnding } from '../../../training/train/recovery/steps/step-ending.js';
import { StepGate } from '../../../training/train/recovery/steps/step-gate.js';
import type { Server } from '../../../training/train/task/server.js';
import type { JobDefinition } from '../definition/define-job.js';
import type { JobResult, LoopResult } from '../definition/job-result.js';
import { hasDecisions } from '../definition/metric-options.js';
import { findEndOfJob } from '../directory/ended-job.js';
import type { TrainingGraph } from '../graph/training-graph.js';
import { JobEnd, LastStepsLost, StartAborted } from './job-end.js';
import { jobHooks } from './job-hooks.js';
import { JobServices, type JobServicesOptions } from './job-services.js';
import { trainLoop } from './train-loop.js';

export interface TrainJobOptions {
  readonly server?: Server;
  /** The task's own directory. */
  readonly dir: string;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Called with the global step, and the loss of the last own step. */
  readonly onStep?: (step: number, loss?: number) => void;
  readonly onSummary?: JobServicesOptions['onSummary'];
  /** Whether the reports of steps contain the scalar outputs of the model. Default: false. */
  readonly reportsOutputs?: boolean | undefined;
}

/** One training of a job: its graph, what runs beside its steps, and what stops it. */
interface JobTraining extends TrainJobOptions {
  readonly job: JobDefinition;
  readonly graph: TrainingGraph;
  readonly isChief: boolean;
  readonly services: JobServices;
  readonly coordinator: Coordinator;
  readonly ending: StepEnding;
  /** No step begins any more. */
  readonly stop: AbortSignal;
}

/** A synchronous step takes as long as the slowest worker, which may be one that is being replaced. */
const SYNC_STEP_FLOOR_MS = 600_000;

export async function trainJob(
  job: JobDefinition,
  graph: TrainingGraph,
  options: TrainJobOptions,
): Promise<JobResult> {
  for (;;) {
    try {
      return await trainOnce(job, graph, options);
    } catch (error) {
      if (!(error instanceof LastStepsLost)) throw await explainInputError(error, graph);
      options.log(`${describeError(error)}; training resumes from the newest checkpoint`, 'warn');
    }
  }
}

async function trainOnce(
  job: JobDefinition,
  graph: TrainingGraph,
  options: TrainJobOptions,
): Promise<JobResult> {
  const { server, signal, log } = options;
  const isChief = server?.isChief ?? true;
  if (graph.inputLine) log(`input: ${graph.inputLine}`);
  const coordinator = new Coordinator({ log });
  using ending = new StepEnding(signal);
  const stop = AbortSignal.any([signal, coordinator.signal]);
  // Every run and every part of a restore adds a listener.
  setMaxListeners(0, stop);
  cutStepsOnFailure(coordinator, ending, graph);
  const onError = (error: unknown) => coordinator.requestStop(error);
  const services = await JobServices.load(job, graph, { ...options, server, isChief, onError });
  const training = { ...options, job, graph, isChief, services, coordinator, ending, stop };
  const { hooks, opened } = await open(training).catch(async (error: unknown) => {
    await services.closeWriters();
    throw error;
  });
  const end = new JobEnd(job, graph, { opened, hooks, services, coordinator, ending, signal, log });
  const life = new Training(opened, end);
  let failure: { readonly error: unknown } | undefined;
  try {
    services.attach(opened);
    await life.ready().catch((error: unknown) => {
      throw signal.aborted ? new StartAborted(signal) : error;
    });
    end.trained(await makeSteps(training, opened, hooks));
  } catch (error) {
    failure = { error };
  }
  try {
    await life.end(failure);
  } catch (error) {
    // The error of a background task is the cause of the failed run.
    coordinator.raiseRequestedException();
    throw error;
  }
  await job.callbacks?.onEnd?.(end.result);
  return end.result;
}

/** When a background task fails, steps are waited for only if it matters whether they are applied. */
function cutStepsOnFailure({ signal }: Coordinator, ending: StepEnding, { shards }: TrainingGraph): void {
  const cut = () => (shards ? ending.stop(signal) : ending.cancel(signal.reason));
  signal.addEventListener('abort', cut, { once: true });
}

async function open(
  training: JobTraining,
): Promise<{ readonly hooks: readonly SessionRunHook[]; readonly opened: OpenedTraining }> {
  const { job, graph, server, isChief, services, coordinator, ending, signal, stop, log } = training;
  const { shards, sync, localInit } = graph;
  const { checkpoint, inflight = 1, stepTimeoutSecs, recovery } = job.train;
  const { writers, checkpoints } = services;
  const task = server?.task.task;
  const hooks: readonly SessionRunHook[] = [
    ...(shards ? [new LeasedInputHook(shards, inflight)] : []),
    ...(sync ? [new SyncReplicasHook(sync, { isChief, log, signal })] : []),
    ...services.summaries,
    ...(await jobHooks(job, graph, { isChief, writers, log, signal, task })),
  ];
  const opened = await openTraining({
    graph: graph.graph,
    server,
    isChief,
    hooks,
    coordinator,
    gate: server ? undefined : new StepGate(),
    values: (runner) => ({
      restore:
        checkpoints &&
        ((missing: readonly Variable[], again: boolean) => checkpoints.restore(runner, missing, again)),
      newestStep: checkpoints && server && (() => checkpoints.newestStep(runner)),
      localInit: localInit && (async () => void (await runner.run(localInit))),
    }),
    recovery,
    onRecovery: job.callbacks?.onRecover,
    stepMs: stepTimeoutSecs === undefined ? undefined : stepTimeoutSecs * 1000,
    stepFloorMs: sync ? SYNC_STEP_FLOOR_MS : undefined,
    needsWorkers: sync !== undefined,
    savesCheckpoints: checkpoint !== undefined,
    signal: ending.signal,
    stop,
    log,
  });
  // A synchronous step may wait for workers that have stopped. Cut off, it is not applied; its records are uncertain.
  ending.mayFinish = () => !(sync && !shards) && !opened.session.isRecovering;
  return { hooks, opened };
}

/** Makes steps until the last one, a stop, or the end of the input. */
async function makeSteps(
  training: JobTraining,
  opened: OpenedTraining,
  hooks: readonly SessionRunHook[],
): Promise<LoopResult> {
  const { job, graph, services, stop, log, onStep, reportsOutputs } = training;
  const { session } = opened;
  const first = (await session.runUngated(graph.globalStep.toOutput())).number();
  // A job that has stopped early is finished, as at its last step: its tasks do what remains.
  const hasEnded = first < job.train.lastStep && (await hasJobEnded(training, opened, first));
  services.follow(opened, graph);
  if (hasEnded) log(`training has ended at step ${first}, before the last step (${job.train.lastStep})`);
  const lastStep = hasEnded ? first : job.train.lastStep;
  log(`training begins at step ${first}`, 'debug', { event: 'start', job: job.name, step: first, lastStep });
  services.begin(opened, first, lastStep);
  let isStopRequested = false;
  const step = stepMaker(opened, hooks, stop, () => {
    isStopRequested = true;
  });
  return trainLoop(session, graph, {
    ...job.train,
    lastStep,
    first,
    step,
    inProgress: () => services.evaluation?.inProgress,
    signal: stop,
    log,
    isStopRequested: () => isStopRequested || services.decisions?.stoppedAt !== undefined,
    reportsOutputs,
    onStep: (now, lastLoss) => {
      onStep?.(now, lastLoss);
      services.onStep(now);
    },
  });
}

/** Whether the record beside the checkpoints says so; on a worker, that on the disks of the others. */
async function hasJobEnded(
  { job, services: { checkpoints, decisions }, stop }: JobTraining,
  { runner, server }: OpenedTraining,
  step: number,
): Promise<boolean> {
  if (hasDecisions(job) && (await decisions?.hasEnded(stop))) return true;
  if (checkpoints) return checkpoints.hasEnded(runner, step);
  const end = server && job.train.checkpoint && (await findEndOfJob(job, server));
  return end !== undefined && step >= end.step;
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
