/**
 * A task of the cluster that computes: TensorFlow's server and the task's place in the membership, together.
 * Sessions of this task go through `session(graph)`, which always speaks to the members of the moment.
 */
import type { Graph } from '../graph/graph.js';
import { parseAddress } from './address.js';
import { ClusterSession, type ClusterSessionOptions } from './cluster-session.js';
import type { ClusterSpec } from './cluster-spec.js';
import { type ClusterTask, type JoinOptions, joinCluster } from './cluster-task.js';
import { compareTasks, parseTaskId, type TaskId } from './task-id.js';
import { TensorFlowServer } from './tensorflow-server.js';

export interface ServerOptions extends Omit<JoinOptions, 'serverAddress'> {
  /** The port of TensorFlow's server; 0 is any free one. */
  readonly tfPort?: number;
}

export class Server {
  readonly spec: ClusterSpec;
  readonly task: ClusterTask;
  readonly tensorflow: TensorFlowServer;

  private constructor(spec: ClusterSpec, task: ClusterTask, tensorflow: TensorFlowServer) {
    this.spec = spec;
    this.task = task;
    this.tensorflow = tensorflow;
  }

  static async start({ tfPort = 0, ...join }: ServerOptions): Promise<Server> {
    const host = serverHost(join);
    const tensorflow = TensorFlowServer.start({ host, port: tfPort });
    const { requestIds } = tensorflow;
    if (!requestIds.repaired) {
      join.onNotice?.(
        `${join.self}: TensorFlow's request ids could not be repaired (${requestIds.why}); a step may be aborted now and then`,
      );
    }
    const task = await joinCluster({ ...join, serverAddress: tensorflow.address });
    return new Server(join.spec, task, tensorflow);
  }

  /** What plain sessions of this process connect to. */
  get target(): string {
    return this.tensorflow.target;
  }

  get isChief(): boolean {
    return this.task.isChief;
  }

  /** The ps that the cluster is specified with, in order. */
  get psTasks(): readonly TaskId[] {
    return this.spec.tasks
      .map(({ id }) => id)
      .filter((id) => parseTaskId(id).job === 'ps')
      .sort(compareTasks);
  }

  /** A session over this task and the ps. */
  session(graph: Graph, options: ClusterSessionOptions = {}): ClusterSession {
    return new ClusterSession(this, graph, options);
  }

  /** Leaves the cluster. TensorFlow's server lasts as long as the process. */
  async close(): Promise<void> {
    await this.task.leave();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The name under which others reach this machine: as the agent's, which may be elsewhere than the spec says. */
function serverHost({ advertise, listen, spec, self }: Omit<JoinOptions, 'serverAddress'>): string {
  const hostOf = (address: string) =>
    parseAddress(address, `address of ${self}`, { allowPortZero: true }).host;
  const everywhere = new Set(['0.0.0.0', '::']);
  const known = [advertise, listen, spec.addressOf(self)]
    .filter((address) => address !== undefined)
    .map(hostOf);
  return known.find((host) => !everywhere.has(host)) ?? '127.0.0.1';
}
