/** TensorFlow's own engine: its gRPC servers, one in each task. */
import { lookup } from 'node:dns/promises';
import { connect } from 'node:net';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { ConfigProto } from '../../../base/proto/generated/config_pb.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import type { Engine, EngineSessionOptions, LocalSession } from '../engines/engine.js';
import type { Member } from '../membership/types.js';
import { parseAddress } from '../spec/address.js';
import { clusterConfig } from '../spec/cluster-config.js';
import { parseTaskId, type TaskId } from '../spec/task-id.js';
import type { ClusterTask } from '../task/cluster-task.js';
import type { JoinOptions } from '../task/join-options.js';
import { SuspensionGuard } from './suspension-guard.js';
import { EVERY_INTERFACE, TensorFlowServer } from './tensorflow-server.js';

const PROBE_MS = 2000;
/** A process that did not run for this long may have been replaced. */
const SUSPENDED_MS = 500;

export interface GrpcEngineOptions {
  readonly task: ClusterTask;
  readonly tensorflow: TensorFlowServer;
  readonly psTasks: readonly TaskId[];
}

export class GrpcEngine implements Engine {
  readonly kind = 'grpc';
  /** TensorFlow keeps them too, but their functions belong to the session. */
  readonly keepsObjects = false;
  readonly #parts: GrpcEngineOptions;
  readonly #guard: SuspensionGuard;

  constructor(parts: GrpcEngineOptions) {
    this.#parts = parts;
    this.#guard = new SuspensionGuard(parts.task, parts.psTasks, SUSPENDED_MS);
  }

  get tensorflow(): TensorFlowServer {
    return this.#parts.tensorflow;
  }

  get target(): string {
    return this.#parts.tensorflow.target;
  }

  get description(): string {
    return `TensorFlow at ${this.#parts.tensorflow.address}`;
  }

  /** Connects to the TensorFlow address of the member. */
  async probe({ task, serverAddress }: Member): Promise<void> {
    if (serverAddress === null) {
      throw new ShoalError('SHOAL_TF_UNAVAILABLE', `${task} has no TensorFlow server`, {
        task,
        hint: 'All tasks of a cluster need the same engine: --engine=grpc or --engine=direct.',
      });
    }
    const { host, port } = parseAddress(serverAddress);
    await new Promise<void>((resolve, reject) => {
      const socket = connect({ host, port, timeout: PROBE_MS });
      const fail = (why: string) => {
        socket.destroy();
        reject(
          new ShoalError('SHOAL_TF_UNAVAILABLE', `${task} does not answer at ${serverAddress}: ${why}`, {
            task,
          }),
        );
      };
      socket.once('connect', () => {
        socket.destroy();
        resolve();
      });
      socket.once('timeout', () => fail(`no connection within ${PROBE_MS} ms`));
      socket.once('error', (error) => fail(error.message));
    });
  }

  openSession(
    graph: Graph,
    _ps: readonly Member[],
    { config, timeoutMs, signal }: EngineSessionOptions,
  ): Promise<Session> {
    return Session.create({
      graph,
      target: this.target,
      config: this.sessionConfig(config),
      timeoutMs,
      signal,
    });
  }

  openLocal(): LocalSession {
    const graph = new Graph();
    const session = Session.open({ graph, target: this.target, cluster: false });
    const close = async () => {
      await session.close({ timeoutMs: 5000 });
      graph.dispose();
    };
    return { graph, session, close };
  }

  confirmCurrent(): Promise<void> | undefined {
    return this.#guard.confirm();
  }

  /** A session that is replaced ends its runs. */
  async settled(): Promise<void> {}

  sessionConfig(base?: ConfigProto): ConfigProto {
    const { task, tensorflow, psTasks } = this.#parts;
    const servers: Record<string, Map<number, string>> = {};
    const put = (id: TaskId, address: string) => {
      const { job, index } = parseTaskId(id);
      servers[job] = (servers[job] ?? new Map<number, string>()).set(index, address);
    };
    for (const id of psTasks) {
      const member = task.member(id);
      if (member?.status !== 'alive' || member.serverAddress === null) {
        throw new ShoalError('SHOAL_UNREACHABLE', `${id} is not alive: cannot open a session`, {
          task: id,
          hint: 'Open the session with `await Session.create(…)`, which waits for the ps.',
        });
      }
      put(id, member.serverAddress);
    }
    put(task.task, tensorflow.address);
    return clusterConfig(servers, base);
  }

  /** TensorFlow's server runs until the process ends. */
  async close(): Promise<void> {
    this.#guard.close();
  }
}

/** Starts TensorFlow's server for a task that is about to join. */
export async function startTensorFlow(
  join: Omit<JoinOptions, 'serverAddress'>,
  port: number,
): Promise<TensorFlowServer> {
  const host = serverHost(join);
  const listen = await listenAddress(join);
  const tensorflow = await TensorFlowServer.start({ host, listen, port });
  const { requestIds, bind } = tensorflow;
  if (!bind.confined) join.onNotice?.(openPortWarning(join.self, tensorflow.address, bind.why), 'warn');
  if (!requestIds.repaired) {
    join.onNotice?.(
      `${join.self}: TensorFlow's request ids could not be repaired (${requestIds.why}); a step may occasionally abort`,
      'warn',
    );
  }
  return tensorflow;
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
    `${self}: TensorFlow's port ${parseAddress(address).port} is open on all network interfaces (${why}). ` +
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
