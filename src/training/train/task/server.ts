/**
 * A task of a training cluster as a TensorFlow 1 program starts it: `Server.start({ cluster, jobName, taskIndex })`, or
 * without arguments from TF_CONFIG or the classic flags. It joins the cluster, stores blobs for other tasks in its own
 * directory, and takes part in checkpoints.
 */

import { join, resolve } from 'node:path';
import { describeError, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { EXIT, exitCodeOf } from '../../../base/errors/exit-codes.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import { requireDirectory } from '../../../base/files/directories.js';
import { defaultLog, type Log } from '../../../base/text/log.js';
import { checkpointBlobPolicy } from '../../../distributed/checkpoint/protocol/blob-policy.js';
import {
  ClusterServer,
  type ClusterServerOptions,
  type StartedTask,
  startTask,
} from '../../../distributed/cluster/runtime/cluster-server.js';
import type { JoinClusterOptions } from '../../../distributed/cluster/runtime/serve-until-over.js';
import { refuseOpenNetwork } from '../../../distributed/cluster/spec/address-rules.js';
import { type ClusterDict, ClusterSpec } from '../../../distributed/cluster/spec/cluster-spec.js';
import {
  type ClusterConfig,
  type EngineKind,
  engineOf,
  resolveConfig,
} from '../../../distributed/cluster/spec/config.js';
import { flagsOfSettings } from '../../../distributed/cluster/spec/config-sources.js';
import { type Security, securityOf } from '../../../distributed/cluster/spec/security.js';
import { parseTaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import { exitImmediatelyWhen } from '../../../tensorflow/native/threads/exit.js';
import { serverAtTarget } from '../../../tensorflow/session/targets.js';
import { CheckpointService } from './checkpoint-service.js';
import { TrainingMetrics } from './training-metrics.js';

export interface ServerOptions {
  /** All tasks of the cluster. Default: from TF_CONFIG or the flags. */
  readonly cluster?: ClusterSpec | ClusterDict;
  /** The job of this task, for example `ps`; required with `cluster`. Default: from TF_CONFIG or the flags. */
  readonly jobName?: string;
  /** The index of this task in its job; required with `cluster`. Default: from TF_CONFIG or the flags. */
  readonly taskIndex?: number;
  /** The task's own directory, in which it keeps blobs. Default: `.shoal/JOB-INDEX`. */
  readonly directory?: string;
  /** Copies of every shard on other hosts. Default: 1. */
  readonly replicas?: number;
  /**
   * Flags. Default: those of the process. With `cluster` the options decide which tasks there are and which one this is;
   * the other flags of a task, such as --listen, apply; --config is not read.
   */
  readonly argv?: readonly string[];
  /** TF_CONFIG, tokens and certificates. Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Makes the task leave the cluster. Default: none. */
  readonly signal?: AbortSignal;
  /** Default: `console.error`, of lines of at least the level SHOAL_LOG_LEVEL. */
  readonly log?: Log;
}

/** The resolved options of a task, and where it stores blobs. */
export interface OpenServerOptions extends ClusterServerOptions {
  readonly blobRoot: string;
  /** Copies of every shard on other hosts; default: 1. */
  readonly replicas?: number;
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<ServerOptions> = {
  cluster: true,
  jobName: true,
  taskIndex: true,
  directory: true,
  replicas: true,
  argv: true,
  env: true,
  signal: true,
  log: true,
};

export class Server extends ClusterServer {
  /** Whether the exit code of this process says how the task ended. */
  #isProgram = false;
  /** Takes part in checkpoints and exports. @internal */
  readonly checkpoints: CheckpointService;
  /** @internal */
  readonly metrics: TrainingMetrics;
  /** Called with the global step when a hook has read it: for the status, and for the steps that a loss costs. @internal */
  readonly onStep: (step: number) => void;
  readonly #signal: AbortSignal | undefined;
  readonly #log: Log | undefined;
  /** When the step was reported. */
  #stepAt = Number.NEGATIVE_INFINITY;

  private constructor(parts: StartedTask, options: OpenServerOptions, onStep: (step: number) => void) {
    super(parts);
    const { blobRoot: directory, replicas, onNotice: log } = options;
    this.onStep = (step) => {
      this.#stepAt = performance.now();
      onStep(step);
    };
    this.#signal = options.signal;
    this.#log = log;
    this.metrics = new TrainingMetrics(this.task.metrics);
    this.metrics.onEvent((event) => {
      const { trace } = this.engine;
      if (trace?.isOn && 'ms' in event) trace.span('training', event.type, event.ms);
    });
    const { shardBytes } = this.metrics;
    const onWritten = (bytes: number) => shardBytes.add(bytes);
    this.checkpoints = new CheckpointService(this, { directory, replicas, log, onWritten });
  }

  /** The age of the reported step. @internal */
  get sinceStepMs(): number {
    return performance.now() - this.#stepAt;
  }

  /** Starts a task whose configuration is resolved. @internal */
  static async open(options: OpenServerOptions): Promise<Server> {
    let step: number | null = null;
    const parts = await startTask({ blobPolicy: checkpointBlobPolicy, step: () => step, ...options });
    return new Server(parts, options, (now) => {
      step = now;
    });
  }

  static async start(given: OrNull<ServerOptions> = {}): Promise<Server> {
    const options = knownOptions(given, OPTIONS, 'Server.start');
    const { env = process.env, signal, replicas } = options;
    const { log = defaultLog(env) } = options;
    const config = resolveConfig({ argv: flagsOf(options), env });
    if (config.mode !== 'cluster') {
      throw new ShoalError('SHOAL_CONFIG', 'No cluster is configured', {
        hint: 'Pass { cluster, jobName, taskIndex }, TF_CONFIG, or --job-name --task-index --ps-hosts --worker-hosts.',
      });
    }
    if (config.elastic.value)
      throw new ShoalError('SHOAL_CONFIG', `${config.elastic.from}: only a task of a job can be elastic`, {
        hint: 'Run a job with train: { elastic: true } by `shoal task --elastic`.',
      });
    refuseOpenNetwork(config, engineOf(config));
    const { job, index } = parseTaskId(config.task);
    const blobRoot = resolve(options.directory ?? join('.shoal', `${job}-${index}`), 'blobs');
    requireDirectory(blobRoot, 'directory');
    const server = await Server.open({ ...configured(config), blobRoot, replicas, onNotice: log, signal });
    server.#isProgram = true;
    leaveAtExit(server, log);
    // TensorFlow's threads may wait for a peer that is gone: the process exits without waiting for them.
    exitImmediatelyWhen();
    return server;
  }

  /** Serves as a ps. When it is asked to stop it has the chief save first, if the chief saves checkpoints. */
  override async join(options: JoinClusterOptions = {}): Promise<void> {
    const beforeLeave = (ms: number) => this.checkpoints.leavingSave.request(ms);
    await super.join({ beforeLeave, log: this.#log, ...options });
  }

  override async close(): Promise<void> {
    try {
      if (this.#isProgram) await reportFailure(this);
      await this.checkpoints.gathering.end(this.#signal);
      await this.checkpoints.close();
    } finally {
      await super.close();
    }
  }
}

/** The server of this process with that target, which TensorFlow 1 programs pass around. */
export function serverAt(target: string | undefined): Server | undefined {
  const server = serverAtTarget(target);
  return server instanceof Server ? server : undefined;
}

/** The options that come from the configuration of a task. */
export function configured(
  config: ClusterConfig,
  security: Security = securityOf(config, config.task),
  engine?: EngineKind,
): ClusterServerOptions {
  return {
    spec: config.spec,
    self: config.task,
    security,
    clusterName: config.clusterName.value,
    listen: config.listen.value,
    engine: engineOf(config, engine),
    tfPort: config.tfPort.value,
    lostWorkerMs: config.lostWorkerMs.value,
    settings: { heartbeatMs: config.heartbeatMs.value, deadAfterMs: config.deadAfterMs.value },
  };
}

/** Leaves the cluster when a program ends without `server.close()`. */
function leaveAtExit(server: Server, log: Log): void {
  process.on('beforeExit', () => void server.close().catch((error: unknown) => log(describeError(error))));
  process.once('uncaughtExceptionMonitor', (error: unknown) => {
    if (!isShoalError(error, 'SHOAL_WORKERS_LOST') && !isShoalError(error, 'SHOAL_ABORTED')) return;
    process.prependOnceListener('exit', () => {
      process.exitCode = exitCodeOf(error);
    });
  });
}

/** A program that fails without the end of a training session: the ps would take it for the end of training. */
async function reportFailure({ task, finished }: Server): Promise<void> {
  if (!trains(task.task) || finished.hasReportedEnd) return;
  const code = Number(process.exitCode ?? EXIT.done);
  if (code === EXIT.retry) await finished.reportReturning();
  else if (code !== EXIT.done)
    await finished.reportStopped(code === EXIT.interrupted ? 'interrupted' : 'failed');
}

/** The flags of the process; the options of the program about the cluster precede them. */
function flagsOf({
  cluster,
  jobName,
  taskIndex,
  argv = process.argv.slice(2),
}: ServerOptions): readonly string[] {
  if (cluster === undefined) return argv;
  const spec = cluster instanceof ClusterSpec ? cluster : new ClusterSpec(cluster);
  const hosts = (job: string) =>
    spec.tasks
      .filter(({ id }) => parseTaskId(id).job === job)
      .map(({ address }) => address)
      .join(',');
  const jobs = ['ps', 'worker', 'chief', 'evaluator'].filter((job) => hosts(job) !== '');
  return [
    ...flagsOfSettings(argv),
    ...jobs.map((job) => `--${job}_hosts=${hosts(job)}`),
    `--job_name=${jobName}`,
    `--task_index=${taskIndex}`,
  ];
}
