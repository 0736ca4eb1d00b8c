/**
 * TensorFlow's gRPC server in this process. It starts as task 0 of a one-task job `local`; every session carries the
 * addresses of the other tasks (see cluster-config.ts). TensorFlow cannot stop a server: it ends with the process.
 */
import { createServer, isIP } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { ServerDefSchema } from '../../../base/proto/generated/config_pb.js';
import { Handle } from '../../../tensorflow/native/handle.js';
import type { Pointer } from '../../../tensorflow/native/library/c-api.js';
import { C } from '../../../tensorflow/native/library/library.js';
import { checked } from '../../../tensorflow/native/status.js';
import { listenError } from '../agent/listen-error.js';
import { type Address, formatAddress } from '../spec/address.js';
import { type BindOutcome, confineBinds } from './bind-address.js';
import { type RequestIdRepair, repairRequestIds } from './request-ids.js';

/** The job that every server starts as: the clusters of sessions must not contain a job of this name. */
export const BOOT_JOB = 'local';

/** Addresses that mean all network interfaces. */
export const EVERY_INTERFACE: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

export interface TensorFlowServerOptions {
  /** The name or address under which other tasks reach this machine; default: 127.0.0.1. */
  readonly host?: string;
  /** The IP address to listen on, `0.0.0.0` or `::` for all interfaces; default: `host`. */
  readonly listen?: string;
  /** Default: 0, any free port. */
  readonly port?: number;
}

export class TensorFlowServer {
  /** The target for sessions of this process. */
  readonly target: string;
  /** host:port under which other tasks reach it. */
  readonly address: string;
  /** Whether TensorFlow's colliding request ids, which abort healthy steps, were repaired. */
  readonly requestIds: RequestIdRepair;
  /** Whether the port is open on the given address only. */
  readonly bind: BindOutcome;
  readonly #handle: Handle;

  private constructor(pointer: Pointer, host: string, requestIds: RequestIdRepair, bind: BindOutcome) {
    // Deleting a running server aborts the process.
    this.#handle = new Handle('server', pointer, () => {});
    this.target = C().TF_ServerTarget(pointer);
    this.requestIds = requestIds;
    this.bind = bind;
    const port = /:(\d+)$/.exec(this.target)?.[1];
    if (port === undefined) {
      throw new ShoalError('SHOAL_INTERNAL', `TF_ServerTarget returned '${this.target}', which has no port`);
    }
    this.address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  }

  static async start({
    host = '127.0.0.1',
    listen = host,
    port = 0,
  }: TensorFlowServerOptions = {}): Promise<TensorFlowServer> {
    if (isIP(listen) === 0) {
      throw invalid(`TensorFlow's server cannot listen on "${listen}": it is not an IP address`, {
        hint: 'resolve the name first and pass the address as `listen`',
      });
    }
    failFast(process.env);
    const requestIds = repairRequestIds();
    const def = create(ServerDefSchema, {
      cluster: {
        job: [{ name: BOOT_JOB, tasks: { 0: `${host.includes(':') ? `[${host}]` : host}:${port}` } }],
      },
      jobName: BOOT_JOB,
      taskIndex: 0,
      protocol: 'grpc',
      // Steps mostly wait for other tasks. Threads that spin while waiting would take CPU time from them.
      defaultSessionConfig: { experimental: { disableThreadSpinning: true } },
    });
    const bytes = toBinary(ServerDefSchema, def);
    const open = () => {
      const pointer = checked((status) => C().TF_NewServer(bytes, bytes.length, status));
      checked((status) => C().TF_ServerStart(pointer, status));
      return pointer;
    };
    try {
      const { result: pointer, bind } = EVERY_INTERFACE.has(listen)
        ? { result: open(), bind: { confined: false, why: `it listens on ${listen}` } as const }
        : confineBinds(listen, open);
      return new TensorFlowServer(pointer, host, requestIds, bind);
    } catch (error) {
      throw await startError(error, { host: listen, port });
    }
  }

  get alive(): boolean {
    return !this.#handle.disposed;
  }
}

/** TensorFlow does not report why its server cannot start: a socket of Node at the same address fails with the reason. */
async function startError(error: unknown, address: Address): Promise<unknown> {
  if (!isShoalError(error, 'SHOAL_TF_UNKNOWN') || !error.message.includes('Could not start gRPC server'))
    return error;
  const cause = await tryListen(address);
  if (cause === undefined) {
    return new ShoalError(error.code, `TensorFlow's server cannot listen on ${formatAddress(address)}`, {
      cause: error,
      hint: 'start the task again: the address is free',
    });
  }
  return listenError("TensorFlow's server", address, cause, {
    inUse: 'stop that process, or set another --tf-port; default: any free port',
  });
}

/** Listens on the address for a moment; returns the error, if it fails. */
function tryListen({ host, port }: Address): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((done) => {
    const server = createServer();
    server.once('error', done);
    server.listen({ host, port, exclusive: true }, () => server.close(() => done(undefined)));
  });
}

/**
 * Makes calls to a server that is gone fail immediately. By default some of them, such as the cleanup of a step, wait
 * for it to return to its old address, which never happens, and the session could not be closed.
 */
function failFast(env: NodeJS.ProcessEnv): void {
  env.GRPC_FAIL_FAST ??= 'true';
}
