/**
 * A task of the cluster that computes: TensorFlow's server and the task's place in the membership, together.
 * Sessions of this task go through `session(graph)`, which always speaks to the members of the moment.
 */
import { lookup } from 'node:dns/promises';
import { messageOf, ShoalError } from '../errors/errors.js';
import type { Graph } from '../graph/graph.js';
import { parseAddress } from './address.js';
import { ClusterSession, type ClusterSessionOptions } from './cluster-session.js';
import type { ClusterSpec } from './cluster-spec.js';
import { type ClusterTask, type JoinOptions, joinCluster } from './cluster-task.js';
import type { Member } from './membership-types.js';
import { ownAddress } from './own-address.js';
import { compareTasks, parseTaskId, type TaskId, trains } from './task-id.js';
import { EVERY_INTERFACE, TensorFlowServer } from './tensorflow-server.js';

export interface ServerOptions extends Omit<JoinOptions, 'serverAddress'> {
  /** The port of TensorFlow's server; 0 is any free one. */
  readonly tfPort?: number;
}

export interface JoinClusterOptions {
  readonly signal?: AbortSignal | undefined;
  readonly log?: ((line: string) => void) | undefined;
  readonly graceMs?: number;
  /** How long an evaluator may stay away when everybody else has left; 30 s unless told. */
  readonly evaluatorMs?: number;
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

  static async start({ tfPort = 0, ...options }: ServerOptions): Promise<Server> {
    const isPlaced = options.listen !== undefined || options.spec.addressOf(options.self) !== undefined;
    const join = isPlaced ? options : { ...options, listen: await ownAddress(options.spec) };
    const host = serverHost(join);
    const listen = await listenAddress(join);
    const tensorflow = TensorFlowServer.start({ host, listen, port: tfPort });
    const { requestIds, bind } = tensorflow;
    if (!bind.confined) join.onNotice?.(openPortWarning(join.self, tensorflow.address, bind.why));
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
   * What a ps does: it serves until every worker has left, and the evaluator, where there is one. An evaluator that is dead,
   * or in the spec and was not heard of yet, has `evaluatorMs` to come. When the signal fires the ps goes once the others
   * have, who may be saving, or after `graceMs`.
   */
  join(options: JoinClusterOptions = {}): Promise<void> {
    const { signal, log, graceMs = 20_000, evaluatorMs = 30_000 } = options;
    const evaluators = this.spec.tasks.filter(({ job }) => job === 'evaluator').map(({ id }) => id);
    const isGone = ({ task, status }: Member) =>
      status === 'left' || (status === 'dead' && (signal?.aborted || parseTaskId(task).job === 'evaluator'));
    return new Promise((resolve) => {
      let grace: NodeJS.Timeout | undefined;
      let missing: NodeJS.Timeout | undefined;
      const look = () => {
        const others = this.task.members().filter(({ task }) => parseTaskId(task).job !== 'ps');
        const isOver = others.every(isGone) && (signal?.aborted || others.some(({ task }) => trains(task)));
        const isMissing = (task: TaskId) => (this.task.member(task)?.status ?? 'dead') === 'dead';
        const awaited = [...evaluators, ...others.map(({ task }) => task)].some(isMissing);
        if (isOver && awaited && !signal?.aborted) {
          missing ??= setTimeout(end, evaluatorMs);
          return;
        }
        clearTimeout(missing);
        missing = undefined;
        if (isOver) end();
      };
      const end = () => {
        unsubscribe();
        clearTimeout(grace);
        clearTimeout(missing);
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

/** The address of TensorFlow's port is the one that the agent listens on. */
async function listenAddress({ listen, spec, self }: Omit<JoinOptions, 'serverAddress'>): Promise<string> {
  const { host } = parseAddress(listen ?? spec.addressOf(self)!, `address of ${self}`, {
    allowPortZero: true,
  });
  try {
    return (await lookup(host)).address;
  } catch (cause) {
    throw new ShoalError('SHOAL_CONFIG', `the address of ${self} cannot be resolved: ${messageOf(cause)}`, {
      hint: 'give --listen=HOST:PORT with an address of this machine',
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

/** The name under which others reach this machine: as the agent's, which may be elsewhere than the spec says. */
function serverHost({ advertise, listen, spec, self }: Omit<JoinOptions, 'serverAddress'>): string {
  const hostOf = (address: string) =>
    parseAddress(address, `address of ${self}`, { allowPortZero: true }).host;
  const known = [advertise, listen, spec.addressOf(self)]
    .filter((address) => address !== undefined)
    .map(hostOf);
  return known.find((host) => !EVERY_INTERFACE.has(host)) ?? '127.0.0.1';
}
