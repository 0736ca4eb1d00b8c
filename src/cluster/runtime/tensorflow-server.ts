/**
 * TensorFlow's gRPC server in this process. It boots knowing only itself, as task 0 of a job `local`; who
 * else is there is told with every session (see cluster-config.ts). A server lasts as long as its process:
 * TensorFlow cannot stop one.
 */
import { isIP } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { invalid, ShoalError } from '../../errors/errors.js';
import { type BindOutcome, confineBinds } from '../../native/bind-address.js';
import type { Pointer } from '../../native/c-api.js';
import { Handle } from '../../native/handle.js';
import { C } from '../../native/library.js';
import { type RequestIdRepair, repairRequestIds } from '../../native/request-ids.js';
import { checked } from '../../native/status.js';
import { ServerDefSchema } from '../../proto/generated/config_pb.js';

/** The job under which every server boots: its name may not reappear in the clusters that sessions carry. */
export const BOOT_JOB = 'local';

/** Addresses that stand for every interface. */
export const EVERY_INTERFACE: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

export interface TensorFlowServerOptions {
  /** The name or address under which others reach this machine. */
  readonly host?: string;
  /** The IP address that the server listens on, `0.0.0.0` or `::` for every interface. Default: `host`. */
  readonly listen?: string;
  /** 0 lets the system choose. */
  readonly port?: number;
}

export class TensorFlowServer {
  /** What sessions of this process connect to. */
  readonly target: string;
  /** host:port, as others reach it. */
  readonly address: string;
  /** Whether healthy steps are safe from colliding request ids. */
  readonly requestIds: RequestIdRepair;
  /** Whether the port is open on the address alone that the server was given. */
  readonly bind: BindOutcome;
  readonly #handle: Handle;

  private constructor(pointer: Pointer, host: string, requestIds: RequestIdRepair, bind: BindOutcome) {
    // Deleting a running server aborts the process: it goes with the process.
    this.#handle = new Handle('server', pointer, () => {});
    this.target = C().TF_ServerTarget(pointer);
    this.requestIds = requestIds;
    this.bind = bind;
    const port = /:(\d+)$/.exec(this.target)?.[1];
    if (port === undefined) {
      throw new ShoalError('SHOAL_INTERNAL', `TensorFlow's server gives the address '${this.target}'`);
    }
    this.address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  }

  static start({
    host = '127.0.0.1',
    listen = host,
    port = 0,
  }: TensorFlowServerOptions = {}): TensorFlowServer {
    if (isIP(listen) === 0) {
      throw invalid(`TensorFlow's server cannot listen on "${listen}": it is not an IP address`, {
        hint: 'resolve the name first and give the address as `listen`',
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
      // A step is mostly waiting for other tasks. A thread that waits by spinning takes the processor from them.
      defaultSessionConfig: { experimental: { disableThreadSpinning: true } },
    });
    const bytes = toBinary(ServerDefSchema, def);
    const open = () => {
      const pointer = checked((status) => C().TF_NewServer(bytes, bytes.length, status), {
        hint: port === 0 ? undefined : `Is port ${port} in use?`,
      });
      checked((status) => C().TF_ServerStart(pointer, status));
      return pointer;
    };
    const { result: pointer, bind } = EVERY_INTERFACE.has(listen)
      ? { result: open(), bind: { confined: false, why: `it listens on ${listen}` } as const }
      : confineBinds(listen, open);
    return new TensorFlowServer(pointer, host, requestIds, bind);
  }

  get alive(): boolean {
    return !this.#handle.disposed;
  }
}

/**
 * Calls to a server that is gone fail at once. By default some of them wait until it is back, which it never
 * is at that address: the clean-up of a step is one, and the session of that step could then never be closed.
 */
function failFast(env: NodeJS.ProcessEnv): void {
  env.GRPC_FAIL_FAST ??= 'true';
}
