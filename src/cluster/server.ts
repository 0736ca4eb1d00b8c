/**
 * A task of the cluster that computes: TensorFlow's server and the task's place in the membership, together.
 * Sessions of this task go through `session(graph)`, which always speaks to the members of the moment.
 */
import type { Graph } from '../graph/graph.js';
import { parseAddress } from './address.js';
import { ClusterSession, type ClusterSessionOptions } from './cluster-session.js';
import type { ClusterSpec } from './cluster-spec.js';
import { type ClusterTask, type JoinOptions, joinCluster } from './cluster-task.js';
import type { Member } from './membership-types.js';
import { compareTasks, parseTaskId, type TaskId } from './task-id.js';
import { TensorFlowServer } from './tensorflow-server.js';

export interface ServerOptions extends Omit<JoinOptions, 'serverAddress'> {
  /** The port of TensorFlow's server; 0 is any free one. */
  readonly tfPort?: number;
}

export interface JoinClusterOptions {
  readonly signal?: AbortSignal | undefined;
  readonly log?: ((line: string) => void) | undefined;
  readonly graceMs?: number;
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

  /**
   * What a ps does: it serves until every worker has left. When the signal fires it goes once the workers have, which may
   * be saving, or after `graceMs`.
   */
  join({ signal, log, graceMs = 20_000 }: JoinClusterOptions = {}): Promise<void> {
    const isWorker = ({ task }: Member) => parseTaskId(task).job !== 'ps';
    return new Promise((resolve) => {
      let grace: NodeJS.Timeout | undefined;
      const look = () => {
        const workers = this.task.members().filter(isWorker);
        const gone = signal?.aborted ? ['left', 'dead'] : ['left'];
        const isOver = workers.every(({ status }) => gone.includes(status));
        if (isOver && (workers.length > 0 || signal?.aborted)) end();
      };
      const end = () => {
        unsubscribe();
        clearTimeout(grace);
        signal?.removeEventListener('abort', stop);
        resolve();
      };
      const stop = () => {
        grace = setTimeout(end, graceMs);
        look();
      };
      const unsubscribe = this.task.events.on('*', (event) => {
        if (event.type === 'lost') log?.(`${event.member.task} is lost (${event.why})`);
        if (event.type === 'back')
          log?.(`${event.member.task} is back${event.replaced ? ', another process' : ''}`);
        look();
      });
      if (signal?.aborted) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    });
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
