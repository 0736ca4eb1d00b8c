/** What an agent needs from its task, and its limits. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Log } from '../../../base/text/log.js';
import type { Identity } from '../membership/map.js';
import type { MembershipMessage } from '../membership/types.js';
import type { Address } from '../spec/address.js';
import type { Security } from '../spec/security.js';
import type { TaskId } from '../spec/task-id.js';
import type { BlobPolicy } from './blobs/blob-access.js';
import type { Admission } from './calls/admissions.js';
import type { GateLimits } from './gate.js';
import type { StrangerLimits } from './strangers.js';
import type { Traffic } from './traffic.js';
import type { ClusterStatus, TaskHealth } from './wire.js';

export interface AgentLimits extends GateLimits, StrangerLimits {
  readonly maxConnections: number;
  /** Streams of other tasks that are open at a time. */
  readonly maxStreams: number;
  readonly maxOrderBytes: number;
  readonly maxAskBytes: number;
  readonly maxMessageBytes: number;
  readonly maxBlobBytes: number;
  /** Bytes of request bodies in memory, of all peers together. */
  readonly maxBufferedBytes: number;
  /** The same for one peer. */
  readonly maxPeerBufferedBytes: number;
  readonly bodyTimeoutMs: number;
  readonly idleMs: number;
  /** How often the certificate files are checked for changes. */
  readonly certificatePollMs: number;
}

export const AGENT_LIMITS: AgentLimits = {
  maxRequests: 1024,
  maxTransfers: 64,
  maxConnections: 8192,
  maxStrangersPerAddress: 1024,
  maxStrangers: 4096,
  strangerMs: 10_000,
  maxStreams: 1024,
  maxOrderBytes: 64 << 20,
  maxAskBytes: 1 << 20,
  maxMessageBytes: 16 << 20,
  maxBlobBytes: 2 ** 43,
  maxBufferedBytes: 512 << 20,
  maxPeerBufferedBytes: 128 << 20,
  bodyTimeoutMs: 30_000,
  idleMs: 60_000,
  certificatePollMs: 10_000,
};

export interface OrderContext {
  readonly from: Identity;
  /** Fires when the caller closes the connection, when another process replaces it, or when the agent closes. */
  readonly signal: AbortSignal;
  /** For work that continues after the response. Its signal fires only when another process replaces the caller. */
  readonly work: Pick<Admission, 'signal' | 'hold'>;
}

/** Handles a request of another task; the payload is not validated, the result is returned as JSON. */
export type RequestHandler = OrderHandler;

/** Answers an operator, who is no task; the payload is not validated, the result is returned as JSON. */
export type OperationHandler = (payload: unknown) => unknown;

/** Executes an order; the payload is not validated, the result is returned as JSON. */
export type OrderHandler = (payload: unknown, context: OrderContext) => Promise<unknown> | unknown;

export interface AgentHooks {
  health(): TaskHealth;
  status(): ClusterStatus;
  /** Processes a peer's message and returns the reply; `complete`: the reply includes the complete member map. */
  exchange(message: MembershipMessage, complete: boolean): MembershipMessage;
  /** Why an order of this sender is refused; undefined when it is accepted. */
  judge(from: Identity): string | undefined;
  /** Why a request of this sender is refused; undefined when it is accepted. */
  judgeCaller(from: Identity): string | undefined;
  /** Why this sender, or the chief whose order it executes, may not change blobs; undefined when allowed. */
  judgeWriter(from: Identity, orderedBy: Identity | undefined): string | undefined;
  chief(): TaskId | undefined;
  /** The main thread of a peer is blocked. */
  pulse?(from: Identity): void;
  /** The persistent connection of a peer has closed. */
  disconnected?(peer: Identity): void;
  /** The metrics in Prometheus' text format. */
  metrics(): string;
}

/** Answers the requests of browsers. It checks credentials itself: a browser has no `authorization` header. */
export interface Pages {
  /** Whether the request is for a page; then it is answered. `admit` is called if it has credentials. */
  serve(request: IncomingMessage, response: ServerResponse, admit: () => void): boolean;
}

export interface AgentOptions {
  readonly cluster: string;
  readonly listen: Address;
  /** The task, for messages; default: none. */
  readonly task?: TaskId;
  readonly security: Security;
  readonly hooks: AgentHooks;
  /** The directory of the blobs; default: the agent stores no blobs. */
  readonly blobRoot?: string;
  /** Which role may write and delete which blobs; default: every role may change every blob. */
  readonly blobPolicy?: BlobPolicy;
  readonly limits?: Partial<AgentLimits>;
  /** Receives messages for the operator. */
  readonly onNotice?: Log;
  /** Whether the agent alone keeps the process running. Default: true. */
  readonly keepsProcess?: boolean;
  /** Counts the bytes of the connections; default: none. */
  readonly traffic?: Traffic;
  /** Default: none. */
  readonly pages?: Pages;
}
