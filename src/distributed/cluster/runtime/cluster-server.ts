/**
 * A task that computes: an engine together with the task's cluster membership. Its sessions are opened with
 * `session(graph)`, which always uses the current ps.
 */

import type { Metrics } from '../../../base/metrics/metrics.js';
import type { ConfigProto } from '../../../base/proto/generated/config_pb.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { library } from '../../../tensorflow/native/library/library.js';
import { useHugePages } from '../../../tensorflow/native/memory/huge-pages.js';
import { forgetTarget, registerTarget, type TargetSession } from '../../../tensorflow/session/targets.js';
import { StageHost } from '../../engine/host/stage-host.js';
import { DirectEngine } from '../engines/direct-engine.js';
import type { Engine } from '../engines/engine.js';
import { GrpcEngine, startTensorFlow } from '../grpc/grpc-engine.js';
import { isPresent, type Member } from '../membership/types.js';
import type { ClusterSpec } from '../spec/cluster-spec.js';
import { DEFAULT_ENGINE, type EngineKind, LOST_WORKER_MS } from '../spec/config.js';
import { ownAddress } from '../spec/own-address.js';
import { compareTasks, parseTaskId, type TaskId, trains } from '../spec/task-id.js';
import { type ClusterTask, joinCluster } from '../task/cluster-task.js';
import { FinishedWorkers } from '../task/finished-workers.js';
import type { JoinOptions } from '../task/join-options.js';
import { TrainingEnd } from '../task/training-end.js';
import type { WaitForOptions } from '../task/wait-for.js';
import { ClusterSession, type ClusterSessionOptions } from './cluster-session.js';
import { type JoinClusterOptions, serveUntilOver } from './serve-until-over.js';
import { serveTrace } from './trace-operation.js';

export interface ClusterServerOptions extends Omit<JoinOptions, 'serverAddress'> {
  /** What executes runs; the same for all tasks of a cluster. Default: direct. */
  readonly engine?: EngineKind;
  /** The port of TensorFlow's server with the engine grpc; default: 0, any free port. */
  readonly tfPort?: number;
  /** How long a ps waits for workers that died when no other worker is alive; default: 5 minutes. */
  readonly lostWorkerMs?: number;
}

/** What `startParts` has started. */
export interface StartedTask {
  readonly spec: ClusterSpec;
  readonly task: ClusterTask;
  readonly engine: Engine;
  readonly lostWorkerMs: number;
}

export class ClusterServer {
  readonly spec: ClusterSpec;
  /** The ps of the cluster specification, in order. */
  readonly psTasks: readonly TaskId[];
  readonly task: ClusterTask;
  /** @internal */
  readonly engine: Engine;

  /** The workers that have reported the end of their training. @internal */
  readonly finished: FinishedWorkers;
  /** Whether training is over, for tasks that run longer than the workers. @internal */
  readonly training: TrainingEnd;
  readonly #keeping = new Set<NodeJS.Timeout>();
  readonly #releasePs: (() => void) | undefined;
  readonly #stopHugePages: (() => void) | undefined;

  protected constructor({ spec, task, engine, lostWorkerMs }: StartedTask) {
    this.spec = spec;
    this.psTasks = psTasksOf(spec);
    this.task = task;
    this.engine = engine;
    this.finished = new FinishedWorkers(task);
    const { finished } = this;
    const now = () => performance.now();
    this.training = new TrainingEnd({
      members: () => task.members(),
      isListed: (id) => task.isListed(id),
      finished,
      lostWorkerMs,
      now,
    });
    if (parseTaskId(task.task).job === 'ps') {
      this.#releasePs = this.keepProcess();
      this.#stopHugePages = useHugePages();
    }
    engineMetric(task.metrics, engine.kind);
    serveTrace(task, engine);
    registerTarget(this);
  }

  static async create(options: ClusterServerOptions): Promise<ClusterServer> {
    return new ClusterServer(await startTask(options));
  }

  /** The target by which programs of this process refer to this task. */
  get target(): string {
    return this.engine.target;
  }

  get isChief(): boolean {
    return this.task.isChief;
  }

  /** Whether every ps and every task that trains is alive. */
  isComplete({ workers = true } = {}): boolean {
    return this.spec.tasks
      .map(({ id }) => id)
      .filter((id) => parseTaskId(id).job === 'ps' || (workers && trains(id)))
      .every((id) => id === this.task.task || this.task.member(id)?.status === 'alive');
  }

  /** The ps that are known to be lost or to have left. @internal */
  lostPs(): readonly TaskId[] {
    return this.psTasks.filter((id) => !isPresent(this.task.member(id)?.status ?? 'dead'));
  }

  /** A session over this task and the ps. */
  session(graph: Graph, options: ClusterSessionOptions = {}): ClusterSession {
    return new ClusterSession(this, graph, options);
  }

  /** Resolves when every ps is alive and its engine accepts connections. */
  async waitForPs({ timeoutMs = 120_000, signal, onProgress }: Partial<WaitForOptions> = {}): Promise<void> {
    await this.task.waitFor(this.psTasks, { timeoutMs, signal, onProgress });
    await Promise.all(this.psTasks.map((id) => this.engine.probe(this.task.member(id) as Member)));
  }

  /** A session on `target`, for programs that know the target only. Undefined if TensorFlow opens it. @internal */
  openSession(graph: Graph, config?: ConfigProto): TargetSession | undefined {
    if (this.engine.kind === 'grpc') return undefined;
    return this.session(graph, { keepsProcess: false, config });
  }

  /** The configuration of a TensorFlow session over this task and the current ps. */
  sessionConfig(base?: ConfigProto): ConfigProto {
    return this.engine.sessionConfig(base);
  }

  /**
   * The main loop of a ps: serves until training is over (see serve-until-over.ts). When the signal fires it leaves
   * after the other tasks, which may be saving, or after `graceMs`.
   */
  async join(options: JoinClusterOptions = {}): Promise<void> {
    try {
      await serveUntilOver(this, options);
    } finally {
      this.#releasePs?.();
    }
  }

  /**
   * Keeps the process running until the returned function is called. A ps runs until `join` returns; any other task
   * ends with its script, like a TensorFlow 1 program.
   */
  keepProcess(): () => void {
    const timer = setInterval(() => {}, 2 ** 30);
    this.#keeping.add(timer);
    return () => {
      clearInterval(timer);
      this.#keeping.delete(timer);
    };
  }

  /** Leaves the cluster. */
  async close(): Promise<void> {
    forgetTarget(this);
    this.#stopHugePages?.();
    await this.task.leave();
    await this.engine.close();
    for (const timer of this.#keeping) clearInterval(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

export function engineMetric(metrics: Metrics, engine: EngineKind): void {
  metrics.readGauge('shoal_engine_info', 'What executes steps; the value is always 1.', () => [
    { labels: { engine }, value: 1 },
  ]);
}

/** Joins the cluster, and starts the engine. */
export async function startTask({
  tfPort = 0,
  lostWorkerMs = LOST_WORKER_MS,
  engine: kind = DEFAULT_ENGINE,
  ...options
}: ClusterServerOptions): Promise<StartedTask> {
  const { spec } = options;
  const isPlaced = options.listen !== undefined || spec.addressOf(options.self) !== undefined;
  const join = isPlaced ? options : { ...options, listen: await ownAddress(spec) };
  const psTasks = psTasksOf(spec);
  if (kind === 'direct') {
    const host = await startTensorFlowHere(options.self);
    const task = await joinCluster({ keepsProcess: false, ...join, serverAddress: null });
    const { onNotice } = join;
    return { spec, task, engine: new DirectEngine(task, psTasks, { host, onNotice }), lostWorkerMs };
  }
  const tensorflow = await startTensorFlow(join, tfPort);
  const task = await joinCluster({ keepsProcess: false, ...join, serverAddress: tensorflow.address });
  return { spec, task, engine: new GrpcEngine({ task, tensorflow, psTasks }), lostWorkerMs };
}

/**
 * Loads TensorFlow before others know of this task: loading blocks the event loop, and they would wait for its answers. A
 * ps, which others wait for in a recovery, opens its session too; that of a worker may get a configuration.
 */
async function startTensorFlowHere(self: TaskId): Promise<StageHost | undefined> {
  library();
  if (parseTaskId(self).job !== 'ps') return undefined;
  const host = new StageHost({ task: self });
  await host.warmUp();
  return host;
}

const psTasksOf = (spec: ClusterSpec): readonly TaskId[] =>
  spec.tasks
    .map(({ id }) => id)
    .filter((id) => parseTaskId(id).job === 'ps')
    .sort(compareTasks);
