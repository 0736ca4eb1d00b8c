/** The options of a session as TensorFlow takes them, and the cluster that a session spans. */
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { type ConfigProto, ConfigProtoSchema } from '../../base/proto/generated/config_pb.js';
import type { Graph } from '../graph/graph.js';
import { countHandle } from '../native/handle.js';
import type { Pointer } from '../native/library/c-api.js';
import { C } from '../native/library/library.js';
import { checked } from '../native/status.js';
import { serverAtTarget, type TargetServer } from './targets.js';

export interface SessionOptions {
  /** The graph to run; default: the current graph. */
  readonly graph?: Graph;
  /** A server's address (`grpc://host:port`). Default: this process. */
  readonly target?: string;
  /** The configuration of the session; default: TensorFlow's. */
  readonly config?: MessageInitShape<typeof ConfigProtoSchema>;
  /**
   * false: if the target is a server of this process, use only that server, without its cluster. Default: its cluster
   * is used.
   */
  readonly cluster?: false;
}

/** The server of this process whose cluster the session spans; undefined if its config names a cluster. */
export const clusterOf = ({ target, config, cluster }: SessionOptions): TargetServer | undefined =>
  cluster === false || config?.clusterDef ? undefined : serverAtTarget(target);

export const configOf = ({ config }: SessionOptions): ConfigProto | undefined =>
  config && create(ConfigProtoSchema, config);

export function overCluster<O extends SessionOptions>(options: O): O {
  const server = clusterOf(options);
  if (!server) return options;
  return { ...options, config: server.sessionConfig(configOf(options)) };
}

export function newOptions({ target, config }: SessionOptions): Pointer {
  const native = C().TF_NewSessionOptions();
  countHandle('options', 1);
  try {
    if (target) C().TF_SetTarget(native, target);
    if (config) {
      const bytes = toBinary(ConfigProtoSchema, create(ConfigProtoSchema, config));
      checked((status) => C().TF_SetConfig(native, bytes, bytes.length, status));
    }
    return native;
  } catch (error) {
    freeOptions(native);
    throw error;
  }
}

export function freeOptions(native: Pointer): void {
  C().TF_DeleteSessionOptions(native);
  countHandle('options', -1);
}

export function withNativeOptions<T>(options: SessionOptions, f: (native: Pointer) => T): T {
  const native = newOptions(options);
  try {
    return f(native);
  } finally {
    freeOptions(native);
  }
}
