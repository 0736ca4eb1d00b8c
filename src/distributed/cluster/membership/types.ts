/** The types of the membership protocol: state, events, effects. All plain data. */

import type { TaskId } from '../spec/task-id.js';
import type { Identity, MapEntry } from './map.js';

/**
 * The status of a task as this one sees it: `suspect` after some silence, `dead` after a refused connection or a long
 * silence, `left` after a leave message. A task that is busy (its main thread is blocked) stays `suspect`. A status that others report is never adopted unchecked.
 */
export type MemberStatus = 'alive' | 'suspect' | 'dead' | 'left';

/** Whether a task is presumed to run. */
export const isPresent = (status: MemberStatus): boolean => status === 'alive' || status === 'suspect';

export interface Member extends MapEntry {
  readonly status: MemberStatus;
  /** By this task's own clock. */
  readonly lastSeen: number;
  /** The event to emit when this incarnation is first seen alive; undefined once emitted. */
  readonly pendingEvent: 'joined' | 'replaced' | undefined;
  /** When its pulse last reported that its main thread is blocked; undefined since the main thread answered. */
  readonly pulseAt?: number | undefined;
  /** Since when it is dead or has left, by this task's own clock; undefined while it is present. */
  readonly goneAt?: number | undefined;
  /** Other tasks no longer hear of it: it will be forgotten. */
  readonly isRetired?: boolean | undefined;
}

export interface MembershipSettings {
  readonly heartbeatMs: number;
  readonly suspectAfterMs: number;
  /** The silence after which a frozen or partitioned peer is dead. */
  readonly deadAfterMs: number;
  /** The longest time that a main thread may be blocked before its task is dead although its process runs. */
  readonly maxBlockedMs: number;
  /** How long a task that the specification does not list is remembered after it has died or left. */
  readonly forgetAfterMs: number;
  /** The longest interval between attempts to reach a task that is dead or unknown. */
  readonly retryMs: number;
}

/** A task and its address in the cluster specification. */
export interface Contact {
  readonly task: TaskId;
  readonly address: string;
}

/** A peer's report about another task, until that task has been probed. */
export interface Claim {
  readonly entry: MapEntry;
  /** The status that the peer reports. */
  readonly opinion: MemberStatus;
  /** For how long the peer considers it gone; undefined if it does not. */
  readonly goneMs?: number | undefined;
  readonly by: TaskId;
}

export interface Membership {
  readonly self: Identity;
  readonly chief: TaskId | undefined;
  readonly contacts: readonly Contact[];
  readonly settings: MembershipSettings;
  /** Every known task, this one included. */
  readonly members: ReadonlyMap<TaskId, Member>;
  readonly epoch: number;
  readonly digest: string;
  /** Whether a peer has recorded this incarnation. Until then it may still be raised. */
  readonly settled: boolean;
  /** The highest incarnation of each task that has asked for work before its announcement arrived. */
  readonly fences: ReadonlyMap<TaskId, Identity>;
  /** Claims being checked, keyed by the claimed identity. */
  readonly claims: ReadonlyMap<string, Claim>;
  readonly now: number;
  /** When each peer or address is due for the next attempt. */
  readonly due: ReadonlyMap<string, Due>;
  readonly over: ExitReason | undefined;
}

export interface Due {
  readonly at: number;
  readonly attempt: number;
}

/** An entry with the status that its sender assigns. */
export interface View extends MapEntry {
  readonly status: MemberStatus;
  /** For how long the sender considers it gone; undefined if it does not. */
  readonly goneMs?: number | undefined;
}

/** A message between tasks: a request or a reply. */
export interface MembershipMessage {
  readonly from: MapEntry;
  readonly digest: string;
  /** The incarnations that the sender considers dead. */
  readonly lost: readonly Identity[];
  /** The sender's map, complete or the part that the receiver must know. */
  readonly members: readonly View[];
}

/** How a message arrived: as a `request` from a peer, or as the reply to our `heartbeat` or `announce`. */
export type Via = 'request' | 'heartbeat' | 'announce';

/** Why a call failed. `refused`: the host answers, but no process listens on the port. */
export type Failure = 'refused' | 'reset' | 'timeout' | 'other';

export type Event =
  | { readonly type: 'start'; readonly now: number }
  | { readonly type: 'tick'; readonly now: number; readonly step?: number | null }
  | { readonly type: 'heard'; readonly now: number; readonly via: Via; readonly message: MembershipMessage }
  | {
      readonly type: 'unreachable';
      readonly now: number;
      /** The incarnation that was called: a later one at the same address is not affected. */
      readonly peer: Identity;
      readonly failure: Failure;
      /** Whether the call used a new connection. */
      readonly fresh: boolean;
    }
  /** The check of a claim has ended. The reply of the task, if any, was dispatched before as `heard`. */
  | { readonly type: 'checked'; readonly now: number; readonly claim: Identity; readonly answered: boolean }
  | { readonly type: 'disconnected'; readonly now: number; readonly peer: Identity }
  /** Another thread of the peer reports that the process runs, but its main thread is blocked. */
  | { readonly type: 'pulse'; readonly now: number; readonly from: Identity }
  | { readonly type: 'server'; readonly now: number; readonly serverAddress: string | null }
  | { readonly type: 'remove'; readonly now: number; readonly task: TaskId }
  | { readonly type: 'leave'; readonly now: number };

export type ExitReason =
  | { readonly kind: 'superseded'; readonly by: MapEntry }
  | { readonly kind: 'removed' }
  /** The release of this process cannot work with that of a peer. */
  | { readonly kind: 'incompatible'; readonly why: string; readonly hint: string | undefined }
  | { readonly kind: 'left' };

/** `blocked`: the process runs, but its main thread has not answered for `maxBlockedMs`. */
export type LostWhy = 'refused' | 'silent' | 'blocked' | 'replaced' | 'confirmed';

export type Effect =
  /** Report that this task is alive, on the persistent connection. */
  | { readonly type: 'heartbeat'; readonly to: TaskId; readonly address: string }
  /** The same on a new connection, immediately. */
  | { readonly type: 'probe'; readonly to: TaskId; readonly address: string }
  /** Probe the address that a peer claimed for an incarnation of the task. Ends with the event `checked`. */
  | { readonly type: 'check'; readonly to: TaskId; readonly address: string; readonly claim: Identity }
  /** Exchange complete maps. */
  | { readonly type: 'announce'; readonly to: TaskId; readonly address: string }
  | { readonly type: 'joined'; readonly member: Member }
  | { readonly type: 'suspected'; readonly member: Member }
  /** A suspect answered in time. */
  | { readonly type: 'trusted'; readonly member: Member }
  | { readonly type: 'lost'; readonly member: Member; readonly why: LostWhy }
  /** Alive after it was lost; `replaced` when it is another incarnation. */
  | { readonly type: 'back'; readonly member: Member; readonly replaced: boolean }
  | { readonly type: 'left'; readonly member: Member }
  | { readonly type: 'epoch'; readonly epoch: number }
  /** A claim that the task at the claimed address does not confirm. It is ignored. */
  | { readonly type: 'unproven'; readonly claim: Claim; readonly why: string }
  /** This process is no longer a member of the cluster. */
  | { readonly type: 'exit'; readonly reason: Exclude<ExitReason, { kind: 'left' }> };

export interface Transition {
  readonly state: Membership;
  readonly effects: readonly Effect[];
}
