/**
 * A task that computes: TensorFlow's server together with the task's cluster membership. Its sessions are opened with
 * `session(graph)`, which always uses the current ps.
 */
import { lookup } from 'node:dns/promises';
import { messageOf, ShoalError } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import type { ConfigProto } from '../../proto/generated/config_pb.js';
import { forgetTarget, registerTarget } from '../../session/targets.js';
import type { Member } from '../membership/types.js';
import { parseAddress } from '../spec/address.js';
import { clusterConfig } from '../spec/cluster-config.js';
import type { ClusterSpec } from '../spec/cluster-spec.js';
import { LOST_WORKER_MS } from '../spec/config.js';
import { ownAddress } from '../spec/own-address.js';
import { compareTasks, parseTaskId, type TaskId, trains } from '../spec/task-id.js';
import { type ClusterTask, joinCluster } from '../task/cluster-task.js';
import { FinishedWorkers } from '../task/finished-workers.js';
import type { JoinOptions } from '../task/join-options.js';
import { TrainingEnd } from '../task/training-end.js';
import type { WaitForOptions } from '../task/wait-for.js';
import { ClusterSession, type ClusterSessionOptions, probe } from './cluster-session.js';
import { serveUntilOver } from './serve-until-over.js';
import { EVERY_INTERFACE, TensorFlowServer } from './tensorflow-server.js';

export interface ClusterServerOptions extends Omit<JoinOptions, 'serverAddress'> {
  /** The port of TensorFlow's server; default: 0, any free port. */
  readonly tfPort?: number;
  /** How long a ps waits for workers that died when no other worker is alive; default: 5 minutes. */
  readonly lostWorkerMs?: number;
}

export interface JoinClusterOptions {
  /** Makes the task leave: after the other tasks, or after `graceMs`. Default: none. */
  readonly signal?: AbortSignal;
  /** Receives messages about lost and returned tasks; default: none. */
  readonly log?: (line: string) => void;
  /** How long the task serves the others after the signal; default: 20 s. */
  readonly graceMs?: number;
  /** How long to wait for an absent evaluator after all workers left; default: 30 s. */
  readonly evaluatorMs?: number;
}

/** What `startParts` has started. */
export interface ServerParts {
  readonly spec: ClusterSpec;
  readonly task: ClusterTask;
  readonly tensorflow: TensorFlowServer;
  readonly lostWorkerMs: number;
}

export class ClusterServer {
  readonly spec: ClusterSpec;
  readonly task: ClusterTask;
  /** @internal */
  readonly tensorflow: TensorFlowServer;

  /** The workers that have reported the end of their training. @internal */
  readonly finished: FinishedWorkers;
  /** Whether training is over, for tasks that run longer than the workers. @internal */
  readonly training: TrainingEnd;
  readonly #keeping = new Set<NodeJS.Timeout>();
  readonly #releasePs: (() => void) | undefined;

  protected constructor({ spec, task, tensorflow, lostWorkerMs }: ServerParts) {
    this.spec = spec;
    this.task = task;
    this.tensorflow = tensorflow;
    this.finished = new FinishedWorkers(task);
    const { finished } = this;
    const now = () => performance.now();
    this.training = new TrainingEnd({ members: () => task.members(), finished, lostWorkerMs, now });
    if (parseTaskId(task.task).job === 'ps') this.#releasePs = this.keepProcess();
    registerTarget(this);
  }

  static async create(options: ClusterServerOptions): Promise<ClusterServer> {
    return new ClusterServer(await startParts(options));
  }

  /** The target for TensorFlow sessions of this process. */
  get target(): string {
    return this.tensorflow.target;
  }

  get isChief(): boolean {
    return this.task.isChief;
  }

  /** The ps of the cluster specification, in order. */
  get psTasks(): readonly TaskId[] {
    return this.spec.tasks
      .map(({ id }) => id)
      .filter((id) => parseTaskId(id).job === 'ps')
      .sort(compareTasks);
  }

  /** Whether every ps and every task that trains is alive. */
  isComplete({ workers = true } = {}): boolean {
    return this.spec.tasks
      .map(({ id }) => id)
      .filter((id) => parseTaskId(id).job === 'ps' || (workers && trains(id)))
      .every((id) => id === this.task.task || this.task.member(id)?.status === 'alive');
  }

  /** A session over this task and the ps. */
  session(graph: Graph, options: ClusterSessionOptions = {}): ClusterSession {
    return new ClusterSession(this, graph, options);
  }

  /** Resolves when every ps is alive and its TensorFlow server accepts connections. */
  async waitForPs({ timeoutMs = 120_000, signal, onProgress }: Partial<WaitForOptions> = {}): Promise<void> {
    await this.task.waitFor(this.psTasks, { timeoutMs, signal, onProgress });
    await Promise.all(this.psTasks.map((id) => probe(this.task.member(id) as Member)));
  }

  /** The configuration of a session over this task and the current ps. */
  sessionConfig(base?: ConfigProto): ConfigProto {
    const servers: Record<string, Map<number, string>> = {};
    const put = (id: TaskId, address: string) => {
      const { job, index } = parseTaskId(id);
      servers[job] = (servers[job] ?? new Map<number, string>()).set(index, address);
    };
    for (const id of this.psTasks) {
      const member = this.task.member(id);
      if (member?.status !== 'alive' || member.serverAddress === null) {
        throw new ShoalError('SHOAL_UNREACHABLE', `${id} is not alive: cannot open a session`, {
          task: id,
          hint: 'Open the session with `await Session.create(…)`, which waits for the ps.',
        });
      }
      put(id, member.serverAddress);
    }
    put(this.task.task, this.tensorflow.address);
    return clusterConfig(servers, base);
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

  /** Leaves the cluster. TensorFlow's server runs until the process ends. */
  async close(): Promise<void> {
    forgetTarget(this);
    await this.task.leave();
    for (const timer of this.#keeping) clearInterval(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Starts TensorFlow's server and joins the cluster. */
export async function startParts({
  tfPort = 0,
  lostWorkerMs = LOST_WORKER_MS,
  ...options
}: ClusterServerOptions): Promise<ServerParts> {
  const isPlaced = options.listen !== undefined || options.spec.addressOf(options.self) !== undefined;
  const join = isPlaced ? options : { ...options, listen: await ownAddress(options.spec) };
  const host = serverHost(join);
  const listen = await listenAddress(join);
  const tensorflow = TensorFlowServer.start({ host, listen, port: tfPort });
  const { requestIds, bind } = tensorflow;
  if (!bind.confined) join.onNotice?.(openPortWarning(join.self, tensorflow.address, bind.why));
  if (!requestIds.repaired) {
    join.onNotice?.(
      `${join.self}: TensorFlow's request ids could not be repaired (${requestIds.why}); a step may occasionally abort`,
    );
  }
  const task = await joinCluster({ keepsProcess: false, ...join, serverAddress: tensorflow.address });
  return { spec: join.spec, task, tensorflow, lostWorkerMs };
}

/** TensorFlow's server listens on the agent's address. */
async function listenAddress({ listen, spec, self }: Omit<JoinOptions, 'serverAddress'>): Promise<string> {
  const { host } = parseAddress(listen ?? spec.addressOf(self)!, `address of ${self}`, {
    allowPortZero: true,
  });
  try {
    return (await lookup(host)).address;
  } catch (cause) {
    throw new ShoalError('SHOAL_CONFIG', `the address of ${self} cannot be resolved: ${messageOf(cause)}`, {
      hint: 'set --listen=HOST:PORT to an address of this machine',
      task: self,
      cause,
    });
  }
}

function openPortWarning(self: TaskId, address: string, why: string): string {
  return (
    `WARNING: ${self}: TensorFlow's port ${parseAddress(address).port} is open on ALL network interfaces (${why}). ` +
    'It has no authentication: whoever reaches it can run any graph and read and write files as this user. ' +
    'Block the port with a firewall for everybody but the tasks of this cluster.'
  );
}

/** The host under which other tasks reach this one: that of the agent, which may differ from the specification. */
function serverHost({ advertise, listen, spec, self }: Omit<JoinOptions, 'serverAddress'>): string {
  const hostOf = (address: string) =>
    parseAddress(address, `address of ${self}`, { allowPortZero: true }).host;
  const known = [advertise, listen, spec.addressOf(self)]
    .filter((address) => address !== undefined)
    .map(hostOf);
  return known.find((host) => !EVERY_INTERFACE.has(host)) ?? '127.0.0.1';
}
