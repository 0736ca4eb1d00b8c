/** How a task joins its cluster. */
import { performance } from 'node:perf_hooks';
import type { ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { AgentLimits, Pages } from '../agent/agent-options.js';
import type { BlobPolicy } from '../agent/blobs/blob-access.js';
import type { MembershipSettings } from '../membership/types.js';
import type { ClusterSpec } from '../spec/cluster-spec.js';
import type { Security } from '../spec/security.js';
import type { TaskId } from '../spec/task-id.js';

export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Milliseconds since 1970. */
  wall(): number;
}

export const SYSTEM_CLOCK: Clock = { now: () => performance.now(), wall: () => Date.now() };

export interface JoinOptions {
  readonly spec: ClusterSpec;
  readonly self: TaskId;
  readonly security: Security;
  /** The address of this task's TensorFlow server; default: null, no server. */
  readonly serverAddress?: string | null;
  /** The name of the cluster; tasks of another cluster are refused. Default: `shoal`. */
  readonly clusterName?: string;
  /** The address that the agent listens on; port 0 is any free port. Default: the address in the specification. */
  readonly listen?: string;
  /** The agent's address for other tasks; default: the address that it listens on. */
  readonly advertise?: string;
  /** The directory of the blobs that the agent serves; default: none, the agent serves no blobs. */
  readonly blobRoot?: string;
  /** Which role may write and delete which blobs; default: every role may change every blob. */
  readonly blobPolicy?: BlobPolicy;
  /** The intervals of membership; default: a heartbeat every 500 ms, dead after 10 s. */
  readonly settings?: Partial<MembershipSettings>;
  /** The pages that the agent serves to browsers; default: none. @internal */
  readonly pages?: Pages;
  /** The limits of the agent; default: those of `AGENT_LIMITS`. */
  readonly limits?: Partial<AgentLimits>;
  /** Returns the training step, for the cluster status; default: null, unknown. */
  readonly step?: () => number | null;
  /** The source of time; default: the system clock. */
  readonly clock?: Clock;
  /** Returns the random part of this task's identity; default: 9 random bytes in base64url. */
  readonly nonce?: () => string;
  /** Whether cluster membership keeps the process running; default: true. */
  readonly keepsProcess?: boolean;
  /** Makes the task leave the cluster; default: none. */
  readonly signal?: AbortSignal;
  /** Receives messages for the operator; default: none. */
  readonly onNotice?: Log;
  /** Called when this process was superseded or removed; default: ends the process. */
  readonly onExit?: (error: ShoalError) => void;
}
