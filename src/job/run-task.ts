/**
 * One task of a job, from its start to its end. A ps serves until every worker has said good-bye; a worker
 * trains until the last step. A signal ends either in good order.
 */

import { abortError } from '../async/deadline.js';
import { checkpointBlobPolicy } from '../checkpoint/blob-policy.js';
import { Server } from '../cluster/runtime/server.js';
import type { ClusterConfig } from '../cluster/spec/config.js';
import { replicaDeviceSetter } from '../cluster/spec/device-setter.js';
import { type Security, securityOf } from '../cluster/spec/security.js';
import { parseTaskId, trains } from '../cluster/spec/task-id.js';
import { isShoalError, messageOf } from '../errors/errors.js';
import { EXIT } from '../errors/exit-codes.js';
import { InputRelease } from '../input/dataset/release.js';
import { isVoidStep } from '../input/leases/step-marks.js';
import { CheckpointService, checkpointServiceOf } from '../train/checkpoints/checkpoint-service.js';
import { applyWarmStarts } from '../train/checkpoints/warm-start.js';
import { startSync } from '../train/hooks/start-sync.js';
import { isRecoverable, RecoverableSession } from '../train/recovery/recoverable-session.js';
import { RecoveryGuard } from '../train/recovery/recovery-guard.js';
import type { TrainingRunner } from '../train/recovery/training-runner.js';
import { JobCheckpoints } from './checkpointing.js';
import type { JobDefinition } from './define-job.js';
import { describeOutputs } from './describe-outputs.js';
import { evaluateJob } from './evaluation.js';
import { JobExports } from './exporting.js';
import { JobInput } from './job-input.js';
import { leadSync } from './lead-sync.js';
import { JobSummaries } from './summaries.js';
import { blobsIn } from './task-directory.js';
import { type LoopResult, trainLoop, unlessInputIsOver } from './train-loop.js';
import { buildTrainingGraph } from './training-graph.js';

export interface RunTaskOptions {
  readonly config: ClusterConfig;
  /** The task's own directory: nothing outside of it is written. */
  readonly dir: string;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly security?: Security;
}

/** A synchronous step lasts as long as that of the slowest worker, which may be one that is being replaced. */
const SYNC_STEP_FLOOR_MS = 600_000;

/** Runs the task and says with which code its process is to exit. */
export async function runTask(job: JobDefinition, options: RunTaskOptions): Promise<number> {
  const { config, log } = options;
  const { job: role } = parseTaskId(config.task);
  let step: number | null = null;
  const blobRoot = blobsIn(options.dir);
  const server = await Server.start({
    spec: config.spec,
    self: config.task,
    security: options.security ?? securityOf(config, config.task),
    clusterName: config.clusterName.value,
    listen: config.listen.value,
    tfPort: config.tfPort.value,
    lostWorkerMs: config.lostWorkerMs.value,
    settings: { heartbeatMs: config.heartbeatMs.value, deadAfterMs: config.deadAfterMs.value },
    step: () => step,
    onNotice: log,
    blobRoot,
    blobPolicy: checkpointBlobPolicy,
  });
  const service = CheckpointService.attach(server, {
    directory: blobRoot,
    replicas: job.train.checkpoint?.replicas,
    log,
  });
  log(`agent at ${server.task.agentAddress}, TensorFlow at ${server.tensorflow.address}, pid ${process.pid}`);
  try {
    if (role === 'ps') return await serve(server, options);
    const onStep = (now: number) => {
      step = now;
    };
    if (role === 'evaluator') return await evaluateJob(server, service, job, { ...options, onStep });
    const code = await train(server, job, options, onStep);
    const stay = code === 0 && (job.train.checkpoint ?? job.export) !== undefined;
    if (code === 0) await service.lastSteps.finish({ stay, signal: options.signal, log });
    return code;
  } finally {
    await service.close();
    await server.close();
  }
}

/** A ps: there until the signal, or until training is over. */
async function serve(server: Server, { signal, log }: RunTaskOptions): Promise<number> {
  try {
    await server.join({ signal, log });
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_WORKERS_LOST')) throw error;
    log(error.message);
    return EXIT.retry;
  }
  log(signal.aborted ? 'stopped' : 'all workers have left; done');
  return 0;
}

async function train(
  server: Server,
  job: JobDefinition,
  { signal, log, config, dir }: RunTaskOptions,
  onStep: (step: number) => void,
): Promise<number> {
  const workerDevice = config.task;
  const device = replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice });
  const parts = buildTrainingGraph(job, { device, workerDevice, ...replicaOf(config) });
  const release = new InputRelease(parts.graph);
  const { beforeClose } = release;
  await using cluster = server.session(parts.graph, { onProgress: log, beforeClose });
  const service = checkpointServiceOf(server) as CheckpointService;
  if (parts.sync) service.pauseAheadSteps = 2;
  const { checkpoint, stepTimeoutSecs } = job.train;
  const needed = [
    ...server.psTasks,
    ...(parts.sync ? server.spec.tasks.map(({ id }) => id).filter(trains) : []),
  ];
  const runner: TrainingRunner = {
    graph: parts.graph,
    server,
    run: (fetches, options) => cluster.run(fetches, options),
    now: () => cluster.now(),
  };
  const recoveryGuard = new RecoveryGuard();
  await using input = await JobInput.open({
    parts,
    runner,
    lanes: job.train.inflight ?? 1,
    recoveryGuard,
    signal,
    log,
  });
  const checkpoints =
    checkpoint && server.isChief
      ? new JobCheckpoints(job, checkpoint, {
          session: runner,
          dir,
          log,
          recoveryGuard,
          input: input.checkpointed,
          signal,
        })
      : undefined;
  const exports =
    job.export && server.isChief
      ? new JobExports(job, job.export, { session: runner, dir, recoveryGuard, signal, log })
      : undefined;
  const { graph, summaryOp } = parts;
  await using summaries =
    summaryOp && server.isChief
      ? new JobSummaries({ ...job.train.summaries, graph, summaryOp, dir, signal, log })
      : undefined;
  const session = new RecoverableSession({
    runner: cluster,
    graph: parts.graph,
    isChief: server.isChief,
    stepMs: stepTimeoutSecs === undefined ? undefined : stepTimeoutSecs * 1000,
    stepFloorMs: parts.sync ? SYNC_STEP_FLOOR_MS : undefined,
    isComplete: () => needed.every((id) => server.task.member(id)?.status === 'alive'),
    signal,
    log,
    gate: service.gate,
    isRecoverable: (error) => isRecoverable(error) || isVoidStep(error),
    inputReleases: release.times,
    warmStart: () => applyWarmStarts(runner, { signal, log }),
    onLost: async () => {
      await recoveryGuard.suspend(log);
      await input.rest();
    },
    onReady: async (again) => {
      await input.ready();
      recoveryGuard.resume();
      if (!again || !parts.sync) return;
      await cluster.run(parts.sync.localStepInitOp, { signal });
      if (server.isChief) await startSync(runner, parts.sync, { signal, log });
    },
    ...input.valuesBy(checkpoints),
  });
  try {
    await session.ready();
  } catch (error) {
    if (!signal.aborted) throw error;
    log(messageOf(abortError('Starting', signal)));
    return EXIT.interrupted;
  }
  await using _lead = await leadSync(server, session, parts, log);
  const writes = checkpoints !== undefined || exports !== undefined;
  const told = (step: number) => {
    onStep(step);
    // Synchronous steps rest at a step that is counted from here.
    if (writes && service.pauseAheadSteps !== undefined) service.gate.saw(step);
    checkpoints?.saw(step);
    exports?.saw(step);
  };
  let result: LoopResult;
  try {
    const first = (await session.runUngated(parts.globalStep.toOutput())).number();
    checkpoints?.begin(first);
    exports?.begin(first);
    result = await trainLoop(session, parts, {
      ...job.train,
      signal,
      log,
      onStep: told,
      leased: input.leased,
      inputFailure: input.failure,
      summaries,
    });
  } catch (error) {
    await Promise.all([checkpoints?.stop(), exports?.stop()]);
    throw error;
  }
  input.finish();
  if (writes) {
    // No save or export may still wait for a pause that nobody makes any more.
    await Promise.all([checkpoints?.stop(), exports?.stop()]);
    await lastStepsOfAll(service, result, log);
  }
  await checkpoints?.end(result.step);
  const exported = await exports?.end(result);
  if (result.interrupted || (exports && exported === undefined)) {
    log(`stopped at step ${result.step}; ${result.ownSteps} steps were made here`);
    return EXIT.interrupted;
  }
  // Outputs may be computed of input, of which there may be no more: they are not tried again.
  const values = await session
    .runUngated(parts.outputs, { timeoutMs: session.stepLimitMs })
    .catch((error: unknown) => (signal.aborted ? {} : unlessInputIsOver(error)));
  const shown = describeOutputs(
    Object.fromEntries(Object.entries(values).map(([name, tensor]) => [name, tensor.toArray()])),
  );
  log([`done at step ${result.step}; ${result.ownSteps} steps were made here`, ...shown].join(' · '));
  return 0;
}

/** How long the chief waits for the last steps of the others. */
const LAST_MS = 20_000;

/** What is written last is to have the last steps of all, and nobody makes more of them. */
async function lastStepsOfAll(
  service: CheckpointService,
  { interrupted }: LoopResult,
  log: (line: string) => void,
): Promise<void> {
  if (!interrupted) {
    // Theirs are taken to last as long as those of this task.
    const timeoutMs = Math.max(LAST_MS, service.gate.times.pauseMs);
    await service.lastSteps.ofOthers({ timeoutMs, log });
  }
  await service.stopUpdates();
}

/** The workers in order: the chief first where it has a job of its own. */
function replicaOf({ spec, task }: ClusterConfig): { index: number; count: number } {
  const workers = spec.tasks.map(({ id }) => id).filter(trains);
  const index = workers.indexOf(task);
  return index < 0 ? { index: workers.length, count: workers.length + 1 } : { index, count: workers.length };
}
