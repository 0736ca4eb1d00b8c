/**
 * Runs one task of a job from start to end. A ps serves until every worker has left; a worker trains until the last
 * step. A signal ends either gracefully: a worker finishes its step and returns its leases, the chief saves, a ps has
 * the chief save. After SIGTERM the others wait for the task to be started again: see preemption.ts.
 */

import { join } from 'node:path';
import { describeError, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { EXIT, exitCodeOf } from '../../../base/errors/exit-codes.js';
import type { Log } from '../../../base/text/log.js';
import type { ClusterConfig } from '../../../distributed/cluster/spec/config.js';
import { replicaDeviceSetter } from '../../../distributed/cluster/spec/device-setter.js';
import { type Security, securityOf } from '../../../distributed/cluster/spec/security.js';
import { parseTaskId, type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import { logLoss } from '../../../distributed/cluster/task/log-loss.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { configured, Server } from '../../../training/train/task/server.js';
import { TaskPage } from '../../page/task-page.js';
import type { JobDefinition } from '../definition/define-job.js';
import type { JobResult } from '../definition/job-result.js';
import { EndedJobWatch, isAlone } from '../directory/ended-job.js';
import { BEST_EXPORTS, blobsIn, exportsIn } from '../directory/task-directory.js';
import { buildTrainingGraph } from '../graph/training-graph.js';
import { evaluateJob } from '../results/evaluation.js';
import { describeConfiguration } from './describe-configuration.js';
import { describeResult, endData } from './describe-outputs.js';
import { StartAborted } from './job-end.js';
import { isPreempted, stoppedCode } from './preemption.js';
import { type TrainJobOptions, trainJob } from './train-job.js';

export interface RunTaskOptions {
  readonly config: ClusterConfig;
  /** The task's own directory: nothing outside of it is written. */
  readonly dir: string;
  /** Stops the task; its reason is the name of the signal. */
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly security?: Security;
  /** Whether the reports of steps contain the scalar outputs of the model; default: false. */
  readonly reportsOutputs?: boolean;
  /** Workers that finished before this task started, and are not started again; default: none are known. */
  readonly finishedWorkers?: readonly TaskId[];
}

/** Runs the task; returns the exit code of the process. */
export async function runTask(job: JobDefinition, options: RunTaskOptions): Promise<number> {
  const code = await runRole(job, options);
  return code === EXIT.interrupted ? stoppedCode(options.signal) : code;
}

async function runRole(job: JobDefinition, given: RunTaskOptions): Promise<number> {
  const { config } = given;
  if (config.elastic.value && !job.train.elastic) {
    throw new ShoalError('SHOAL_CONFIG', `${config.task} is elastic, but job '${job.name}' is not`, {
      hint: 'Set train: { elastic: true } in the job, for all its tasks; it needs leased input.',
    });
  }
  const { job: role } = parseTaskId(config.task);
  let step: number | null = null;
  const blobRoot = blobsIn(given.dir);
  const security = given.security ?? securityOf(config, config.task);
  using page = new TaskPage({
    job: job.name,
    spec: config.spec,
    security,
    blobRoot,
    exportDirectories: exportsOf(job, given.dir),
    lastStep: job.train.lastStep,
    configuration: describeConfiguration(job, config),
  });
  const log = page.recorder.log.tee(given.log);
  const options = { ...given, log };
  const server = await Server.open({
    ...configured(config, security, job.engine),
    pages: page.pages,
    step: () => step,
    onNotice: log,
    blobRoot,
    replicas: job.train.checkpoint?.replicas,
  });
  page.attach(server);
  server.finished.assume(options.finishedWorkers ?? []);
  // Of a ps it is part of its log.
  if (server.isChief) server.task.events.on('*', (event) => logLoss(event, log, true));
  log(`agent at ${server.task.agentAddress}, ${server.engine.description}, pid ${process.pid}`);
  try {
    if (role === 'ps') return await serve(server, job, options);
    const onStep = (now: number, loss?: number) => {
      step = now;
      page.recorder.step(now, loss);
    };
    if (role === 'evaluator') return await evaluateJob(server, job, { ...options, onStep });
    const onSummary = page.recorder.summary.bind(page.recorder);
    const onGraph = (graph: Graph) => page.showGraph(graph);
    return await train(server, job, options, { onStep, onSummary, onGraph }).catch(async (error: unknown) => {
      // After the end of training only what follows it has failed, such as a callback.
      if (!server.checkpoints.lastSteps.isOver) await server.finished.reportStopped('failed');
      throw error;
    });
  } finally {
    await server.close();
  }
}

/** A ps: serves until the signal, or until training is over. */
async function serve(
  server: Server,
  job: JobDefinition,
  { signal, log, config, dir }: RunTaskOptions,
): Promise<number> {
  using ended = await EndedJobWatch.begin(job, { server, dir, log });
  try {
    const stop = AbortSignal.any([signal, ended.signal]);
    await server.join({ signal: stop, log, graceMs: config.graceSecs.value * 1000 });
  } catch (error) {
    const isKnown = isShoalError(error, 'SHOAL_WORKERS_LOST') || isShoalError(error, 'SHOAL_ABORTED');
    if (!isKnown) throw error;
    log(describeError(error));
    return exitCodeOf(error);
  }
  if (ended.signal.aborted && !signal.aborted) return EXIT.done;
  log(signal.aborted ? 'stopped' : 'all workers have left; done');
  return signal.aborted ? EXIT.interrupted : EXIT.done;
}

async function train(
  server: Server,
  job: JobDefinition,
  { signal, log, config, dir, reportsOutputs }: RunTaskOptions,
  {
    onStep,
    onSummary,
    onGraph,
  }: Required<Pick<TrainJobOptions, 'onStep' | 'onSummary'>> & { readonly onGraph: (graph: Graph) => void },
): Promise<number> {
  const workerDevice = config.task;
  const device = replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice });
  const parts = buildTrainingGraph(job, { device, workerDevice, ...replicaOf(config, job) });
  onGraph(parts.graph);
  let result: JobResult;
  let hasStarted = false;
  using ended = await EndedJobWatch.begin(job, { server, dir, log });
  try {
    result = await trainJob(job, parts, {
      server,
      dir,
      signal: AbortSignal.any([signal, ended.signal]),
      log,
      reportsOutputs,
      onSummary,
      onStep: (step, loss) => {
        if (!hasStarted) ended[Symbol.dispose]();
        hasStarted = true;
        onStep(step, loss);
      },
    });
  } catch (error) {
    if (!hasStarted && ended.signal.aborted) return EXIT.done;
    const isAbsent = !hasStarted && isShoalError(error, 'SHOAL_TIMEOUT') && isAlone(server.task);
    // Its successor finds what the others and the newest checkpoint have.
    const isStopped = error instanceof StartAborted || (isPreempted(signal) && isShoalError(error));
    if (!isStopped && !isAbsent) throw error;
    log(describeError(error));
    if (isAbsent) {
      log('no other task is there: the job has ended, or its other tasks have not started');
      return EXIT.retry;
    }
    await announceStop(server, signal);
    return EXIT.interrupted;
  }
  const { lastStep } = job.train;
  const late =
    result.step > lastStep ? ` (last step ${lastStep}: steps that were running then count too)` : '';
  const made = `at step ${result.step}${late}; ${result.ownSteps} steps were made here`;
  if (result.interrupted) {
    log(`stopped ${made}`, 'info', endData(result, lastStep));
    await announceStop(server, signal);
    return EXIT.interrupted;
  }
  log([`done ${made}`, ...describeResult(result)].join(' · '), 'info', endData(result, lastStep));
  return EXIT.done;
}

/**
 * Lets the others wait for the successor of a preempted task. They wait neither for an elastic worker nor for one that
 * was interrupted.
 */
async function announceStop({ finished, task }: Server, signal: AbortSignal): Promise<void> {
  if (!isPreempted(signal)) await finished.reportStopped('interrupted');
  else if (task.isListed(task.task)) await finished.reportReturning();
}

/** Those of the chief, and the best ones of the evaluator. */
function exportsOf({ export: options }: JobDefinition, dir: string): readonly string[] {
  if (!options) return [];
  const directory = exportsIn(dir, options.directory);
  return [directory, join(directory, BEST_EXPORTS)];
}

/** The index of this worker and their number; a task of the job `chief` is first. */
function replicaOf(
  { spec, task }: ClusterConfig,
  { train }: JobDefinition,
): { index: number; count: number } {
  const workers = spec.tasks.map(({ id }) => id).filter(trains);
  const index = workers.indexOf(task);
  if (index < 0 && train.sync) {
    throw new ShoalError(
      'SHOAL_CONFIG',
      `${task} is not in the cluster: synchronous training needs all its workers there`,
    );
  }
  return index < 0 ? { index: workers.length, count: workers.length + 1 } : { index, count: workers.length };
}
