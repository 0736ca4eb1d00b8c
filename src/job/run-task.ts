/**
 * One task of a job, from its start to its end. A ps serves until every worker has said good-bye; a worker
 * trains until the last step. A signal ends either in good order.
 */

import { join } from 'node:path';
import { abortError } from '../async/deadline.js';
import { checkpointBlobPolicy } from '../checkpoint/blob-policy.js';
import type { ClusterConfig } from '../cluster/config.js';
import { replicaDeviceSetter } from '../cluster/device-setter.js';
import { type Security, securityOf } from '../cluster/security.js';
import { Server } from '../cluster/server.js';
import { parseTaskId, trains } from '../cluster/task-id.js';
import { messageOf } from '../errors/errors.js';
import { InputRelease } from '../input/release.js';
import { isVoidStep } from '../input/step-marks.js';
import { CheckpointPlane, planeOf } from '../train/checkpoint-plane.js';
import { isRecoverable, RecoverableSession } from '../train/recoverable-session.js';
import type { TrainingRunner } from '../train/saver-like.js';
import { Steadiness } from '../train/steadiness.js';
import { JobCheckpoints } from './checkpointing.js';
import type { JobDefinition } from './define-job.js';
import { evaluateJob } from './evaluation.js';
import { JobInput } from './job-input.js';
import { leadSync } from './lead-sync.js';
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

export const EXIT_INTERRUPTED = 130;

/** How long a worker that is done stays for the chief's last checkpoint, which may train on. */
const STAY_MS = 60_000;
/** Outputs may be computed of input, of which there may be no more. */
const OUTPUTS = { timeoutMs: 30_000 };

/** Runs the task and says with which code its process is to exit. */
export async function runTask(job: JobDefinition, options: RunTaskOptions): Promise<number> {
  const { config, log } = options;
  const { job: role } = parseTaskId(config.task);
  let step: number | null = null;
  const blobRoot = join(options.dir, 'blobs');
  const server = await Server.start({
    spec: config.spec,
    self: config.task,
    security: options.security ?? securityOf(config, config.task),
    clusterName: config.clusterName.value,
    listen: config.listen.value,
    tfPort: config.tfPort.value,
    settings: { heartbeatMs: config.heartbeatMs.value, deadAfterMs: config.deadAfterMs.value },
    step: () => step,
    onNotice: log,
    blobRoot,
    blobPolicy: checkpointBlobPolicy,
  });
  const plane = CheckpointPlane.attach(server, {
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
    if (role === 'evaluator') return await evaluateJob(server, plane, job, { ...options, onStep });
    const code = await train(server, job, options, onStep);
    if (code === 0 && job.train.checkpoint)
      await plane.lastSteps.stay({ timeoutMs: STAY_MS, signal: options.signal, log });
    return code;
  } finally {
    await plane.close();
    await server.close();
  }
}

/** A ps: there until the signal, or until the workers that were there have all left. */
async function serve(server: Server, { signal, log }: RunTaskOptions): Promise<number> {
  await server.join({ signal, log });
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
  const plane = planeOf(server) as CheckpointPlane;
  if (parts.sync) plane.restAhead = 2;
  const { checkpoint } = job.train;
  const runner: TrainingRunner = {
    graph: parts.graph,
    server,
    run: (fetches, options) => cluster.run(fetches, options),
    now: () => cluster.now(),
  };
  const steadiness = new Steadiness();
  await using input = await JobInput.open({
    parts,
    runner,
    lanes: job.train.inflight ?? 1,
    steadiness,
    signal,
    log,
  });
  const checkpoints =
    checkpoint && server.isChief
      ? new JobCheckpoints(job, checkpoint, {
          session: runner,
          dir,
          log,
          steadiness,
          input: input.checkpointed,
        })
      : undefined;
  const session = new RecoverableSession({
    runner: cluster,
    graph: parts.graph,
    isChief: server.isChief,
    // A synchronous step lasts as long as the slowest worker's; the loss of a ps ends it all the same.
    stepMs: parts.sync ? 600_000 : Math.max(2 * config.deadAfterMs.value, 5_000),
    signal,
    log,
    gate: plane.gate,
    isRecoverable: (error) => isRecoverable(error) || isVoidStep(error),
    inputReleases: release.times,
    onLost: async () => {
      await steadiness.lose(log);
      await input.rest();
    },
    onReady: async (again) => {
      await input.ready();
      steadiness.find();
      if (!again || !parts.sync) return;
      await cluster.run(parts.sync.localStepInitOp, { signal });
      if (server.isChief) await cluster.run(parts.sync.resyncOp, { signal });
    },
    ...input.valuesBy(checkpoints),
  });
  try {
    await session.ready();
  } catch (error) {
    if (!signal.aborted) throw error;
    log(messageOf(abortError('Starting', signal)));
    return EXIT_INTERRUPTED;
  }
  await using _lead = await leadSync(server, session, parts);
  const told = (step: number) => {
    onStep(step);
    checkpoints?.saw(step);
  };
  let result: LoopResult;
  try {
    checkpoints?.begin((await session.aside(parts.globalStep.toOutput())).number());
    result = await trainLoop(session, parts, {
      ...job.train,
      signal,
      log,
      onStep: told,
      leased: input.leased,
      inputFailure: input.failure,
    });
  } catch (error) {
    await checkpoints?.stop();
    throw error;
  }
  input.finish();
  await checkpoints?.end(result.step, result);
  if (result.interrupted) {
    log(`stopped at step ${result.step}; ${result.ownSteps} steps were made here`);
    return EXIT_INTERRUPTED;
  }
  const values = await session.aside(parts.outputs, OUTPUTS).catch(unlessInputIsOver);
  const shown = Object.entries(values).map(
    ([name, tensor]) => `${name} = ${JSON.stringify(tensor.toArray(), plain)}`,
  );
  log([`done at step ${result.step}; ${result.ownSteps} steps were made here`, ...shown].join(' · '));
  return 0;
}

/** The workers in order: the chief first where it has a job of its own. */
function replicaOf({ spec, task }: ClusterConfig): { index: number; count: number } {
  const workers = spec.tasks.map(({ id }) => id).filter(trains);
  const index = workers.indexOf(task);
  return index < 0 ? { index: workers.length, count: workers.length + 1 } : { index, count: workers.length };
}

const plain = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);
