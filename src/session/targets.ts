/**
 * The servers of this process by their target. TensorFlow 1 programs name a server by that string alone
 * (`tf.Session(server.target)`); a session on it is to span the cluster of that server.
 */
import type { WaitOptions } from '../async/deadline.js';
import type { ConfigProto } from '../proto/generated/config_pb.js';

export interface TargetServer {
  readonly target: string;
  /** The configuration of a session over the cluster as it is at this moment; throws where a ps is missing. */
  sessionConfig(base?: ConfigProto): ConfigProto;
  /** Resolves when every ps is there. */
  waitForPs(options: WaitOptions): Promise<void>;
}

// Both ends have nothing but the string in common.
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
