/**
 * Shoal's own engine: this task's session runs its stages, and those of other tasks over one connection to each. The
 * connection is an upgraded request to the agent, so there is no other port and no other authentication.
 */

import type { Duplex } from 'node:stream';
import { withDeadline } from '../../../base/async/deadline.js';
import { commonVersion, VERSIONS } from '../../../base/bytes/versions.js';
import { firstLineOf, invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { ConfigProto } from '../../../base/proto/generated/config_pb.js';
import type { Log } from '../../../base/text/log.js';
import type { DeviceSpec } from '../../../tensorflow/graph/device.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { DirectSession } from '../../engine/direct-session.js';
import { StageHost } from '../../engine/host/stage-host.js';
import type { RunPlacement } from '../../engine/partition/placement.js';
import type { BulkDialer } from '../../engine/remote/bulk-opening.js';
import { RemoteStages } from '../../engine/remote/remote-stages.js';
import { StageService } from '../../engine/remote/stage-service.js';
import type { StageRunner } from '../../engine/run-plan.js';
import { TaskTrace } from '../../engine/trace/task-trace.js';
import type { StreamContext } from '../agent/streams.js';
import type { Identity } from '../membership/map.js';
import type { Member } from '../membership/types.js';
import { parseTaskId, type TaskId, taskId } from '../spec/task-id.js';
import type { ClusterTask } from '../task/cluster-task.js';
import { BulkStreams, isUnencrypted } from './bulk-streams.js';
import type { Engine, EngineSession, EngineSessionOptions, LocalSession } from './engine.js';

const PROTOCOL = 'stages';
const CONNECT_MS = 5000;
/** How long the runs of a connection may take to end after it was closed. */
const EARLIER_MS = 30_000;

export interface DirectEngineOptions {
  /** The session of this task; default: it is created by its first use. */
  readonly host?: StageHost | undefined;
  readonly onNotice?: Log | undefined;
}

interface Link {
  /** The incarnation of the peer: a replaced task needs a new connection. */
  readonly nonce: string;
  readonly opening: Promise<void>;
  stages: RemoteStages | undefined;
}

export class DirectEngine implements Engine {
  readonly kind = 'direct';
  readonly target: string;
  readonly description = 'direct engine';
  readonly keepsObjects = true;
  readonly trace: TaskTrace;
  readonly #task: ClusterTask;
  readonly #ps: ReadonlySet<TaskId>;
  /** The connections from other tasks. */
  readonly #services = new Map<StageService, Identity>();
  /** The connections that wait for the end of an earlier one of the same process. */
  readonly #opening = new Map<string, Duplex>();
  readonly #links = new Map<string, Link>();
  readonly #bulk: BulkStreams;
  readonly #onNotice: Log | undefined;
  readonly #stopServing: () => void;
  readonly #unsubscribe: () => void;
  #host: StageHost | undefined;
  /** Failed runs of which stages are still running, on this task or others. */
  readonly #failed = new Set<Promise<void>>();

  constructor(task: ClusterTask, psTasks: readonly TaskId[], { host, onNotice }: DirectEngineOptions = {}) {
    this.#task = task;
    this.#host = host;
    this.trace = host?.trace ?? new TaskTrace();
    this.#onNotice = onNotice;
    this.#bulk = new BulkStreams(task);
    this.#ps = new Set(psTasks);
    this.target = `shoal:/${task.task}`;
    this.#stopServing = task.onStream(PROTOCOL, (socket, context) => this.#serve(socket, context));
    // A frozen peer keeps its connection open: its runs end when it counts as lost.
    this.#unsubscribe = task.events.on('*', (event) => {
      if (event.type === 'lost' || event.type === 'left') this.#links.get(event.member.task)?.stages?.close();
    });
  }

  /** Runs the stages of another task, until the connection is closed and the last of them has ended. */
  async #serve(socket: Duplex, { from, label, head, versions }: StreamContext): Promise<void> {
    this.#opening.get(from.nonce)?.destroy();
    this.#opening.set(from.nonce, socket);
    try {
      await this.#endEarlier(from);
    } finally {
      if (this.#opening.get(from.nonce) === socket) this.#opening.delete(from.nonce);
    }
    if (socket.destroyed) return;
    const service: StageService = new StageService(socket, {
      host: this.#hostWith(undefined),
      label,
      caller: from.task,
      head,
      version: commonVersion(VERSIONS.stages, versions.stages),
      bulk: isUnencrypted(socket) ? this.#bulk.listenerFor(from) : undefined,
      onClose: () => void service.ended.then(() => this.#services.delete(service)),
    });
    this.#services.set(service, from);
    await service.ended;
  }

  /**
   * A process that connects again has given up its earlier connection. After a network failure the end of that connection
   * may arrive seconds later. Until then its runs would wait for queues and accumulators, and take what belongs to the
   * runs of the new connection.
   */
  async #endEarlier(from: Identity): Promise<void> {
    const ended: Promise<void>[] = [];
    for (const [service, earlier] of this.#services) {
      if (earlier.nonce !== from.nonce) continue;
      service.close();
      ended.push(service.ended);
    }
    if (ended.length === 0) return;
    await withDeadline(Promise.all(ended), `Waiting for the runs of an earlier connection of ${from.task}`, {
      timeoutMs: EARLIER_MS,
    });
  }

  /** The session is created by its first use; a later configuration has no effect. */
  #hostWith(config: ConfigProto | undefined): StageHost {
    this.#host ??= new StageHost({ task: this.#task.task, config, trace: this.trace });
    return this.#host;
  }

  async probe(member: Member): Promise<void> {
    await this.#connect(member);
  }

  async openSession(
    graph: Graph,
    ps: readonly Member[],
    { config, timeoutMs, signal }: EngineSessionOptions,
  ): Promise<EngineSession> {
    const host = this.#hostWith(config);
    await Promise.all(ps.map((member) => this.#connect(member, { timeoutMs, signal })));
    const { task: self } = this.#task;
    const runnerOf = (task: string): StageRunner => (task === self ? host.runner : this.#linked(task));
    const onFailed = (ended: Promise<void>) => {
      this.#failed.add(ended);
      void ended.then(() => this.#failed.delete(ended));
    };
    return new DirectSession({ graph, placement: this.#placement(), runnerOf, onFailed, trace: this.trace });
  }

  #linked(task: string): StageRunner {
    const stages = this.#links.get(task)?.stages;
    if (stages) return stages;
    throw new ShoalError('SHOAL_TF_UNAVAILABLE', `${task} is not connected`, { task });
  }

  /** The connection to a member, opened if there is none. Others may wait for it too: the signal ends this wait only. */
  #connect(
    { task, nonce }: Member,
    { timeoutMs, signal }: Pick<EngineSessionOptions, 'timeoutMs' | 'signal'> = {},
  ): Promise<void> {
    let link = this.#links.get(task);
    if (!link || link.nonce !== nonce || link.stages?.closed) {
      link?.stages?.close();
      link = this.#link(task, nonce);
    }
    return withDeadline(link.opening, `Connecting to ${task}`, { timeoutMs, signal });
  }

  #link(task: TaskId, nonce: string): Link {
    const opened = this.#open(task);
    const link: Link = { nonce, opening: opened.then(() => {}), stages: undefined };
    this.#links.set(task, link);
    // Nobody may be waiting any more.
    link.opening.catch(() => {});
    opened.then(
      (stages) => {
        // It was replaced meanwhile, or the task has left.
        if (this.#links.get(task) !== link) stages.close();
        link.stages = stages;
      },
      () => {
        // The next attempt opens another one.
        if (this.#links.get(task) === link) this.#links.delete(task);
      },
    );
    return link;
  }

  async #open(task: TaskId): Promise<RemoteStages> {
    try {
      const { socket, head, label, versions } = await this.#task.openStream(task, PROTOCOL, {
        timeoutMs: CONNECT_MS,
      });
      const version = commonVersion(VERSIONS.stages, versions.stages);
      const bulk = isUnencrypted(socket) ? this.#bulkDialer(task) : undefined;
      return new RemoteStages(socket, { task, label, head, version, bulk, trace: this.trace });
    } catch (cause) {
      // A retry does not help against wrong credentials or another release.
      if (isShoalError(cause, 'SHOAL_FORBIDDEN') || isShoalError(cause, 'SHOAL_VERSION_MISMATCH'))
        throw cause;
      throw new ShoalError('SHOAL_TF_UNAVAILABLE', `no connection to ${task}: ${firstLineOf(cause)}`, {
        task,
        cause,
        ...(isShoalError(cause, 'SHOAL_NOT_FOUND') && {
          hint: 'All tasks of a cluster need the same engine: --engine=grpc or --engine=direct.',
        }),
      });
    }
  }

  #bulkDialer(task: TaskId): BulkDialer {
    return {
      open: (token) => this.#bulk.open(task, token),
      onOpen: (channel) => this.#bulk.count(channel),
      onFailed: (reason) =>
        this.#onNotice?.(
          `${this.#task.task}: large tensors and small ones share a connection to ${task}: ${reason}`,
          'debug',
        ),
    };
  }

  #placement(): RunPlacement {
    const { task: self } = this.#task;
    const own = parseTaskId(self);
    const taskOf = ({ job, task }: DeviceSpec): string => {
      if (job === own.job && (task === undefined || Number(task) === own.index)) return self;
      const id = taskId(job as string, Number(task ?? 0));
      if (this.#ps.has(id)) return id;
      throw invalid(`An op is on ${id}, but a session of ${self} runs on ${self} and the ps only`);
    };
    return { self, taskOf };
  }

  openLocal(): LocalSession {
    const { graph, session } = this.#hostWith(undefined);
    return { graph, session, close: async () => {} };
  }

  /** The ps refuse the runs of a process that was replaced. */
  confirmCurrent(): undefined {}

  async settled({ timeoutMs }: { readonly timeoutMs: number }): Promise<void> {
    await withDeadline(Promise.all(this.#failed), 'Waiting for the end of failed steps', { timeoutMs });
  }

  sessionConfig(): never {
    throw new ShoalError('SHOAL_UNSUPPORTED', 'The direct engine has no TensorFlow server', {
      hint: 'Open a session on server.target, or start the server with engine grpc.',
    });
  }

  /** Ends all connections. The session ends with the process: threads of its datasets may be running. */
  async close(): Promise<void> {
    this.#stopServing();
    this.#bulk.close();
    this.#unsubscribe();
    const links = [...this.#links.values()];
    this.#links.clear();
    for (const { stages } of links) stages?.close();
    for (const service of this.#services.keys()) service.close();
  }
}
