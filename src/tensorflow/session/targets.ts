/**
 * The servers of this process by target. TensorFlow 1 programs refer to a server only by that string
 * (`tf.Session(server.target)`); a session on it spans the server's cluster.
 */
import type { WaitOptions } from '../../base/async/deadline.js';
import type { ConfigProto } from '../../base/proto/generated/config_pb.js';
import type { Graph } from '../graph/graph.js';
import type { Runner } from './runner.js';

/** A session over a cluster that does not go through TensorFlow's servers. */
export interface TargetSession extends Runner {
  /** Cancels active runs. */
  close(options?: { readonly timeoutMs?: number }): Promise<void>;
}

export interface TargetServer {
  readonly target: string;
  /** A session over the cluster. Undefined if TensorFlow opens it, with `sessionConfig`. */
  openSession(graph: Graph, config?: ConfigProto): TargetSession | undefined;
  /** The session configuration for the current cluster; throws if a ps is missing. */
  sessionConfig(base?: ConfigProto): ConfigProto;
  /** Resolves when every ps is available. */
  waitForPs(options: WaitOptions): Promise<void>;
}

// Server and session have only the string in common.
const servers = new Map<string, TargetServer>();

export function registerTarget(server: TargetServer): void {
  servers.set(server.target, server);
}

export function forgetTarget(server: TargetServer): void {
  servers.delete(server.target);
}

export function serverAtTarget(target: string | undefined): TargetServer | undefined {
  return target === undefined ? undefined : servers.get(target);
}
