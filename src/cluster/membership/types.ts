/** The words of the membership protocol: state, events, effects. All plain data. */

import type { TaskId } from '../spec/task-id.js';
import type { Entry, Identity } from './map.js';

/**
 * What this task thinks of another: `suspect` after some silence, `dead` when the connection was refused or
 * the silence lasted, `left` when it said good-bye. An opinion is never taken over from others unchecked.
 */
export type Status = 'alive' | 'suspect' | 'dead' | 'left';

/** Whether a task is there, as far as anybody knows. */
export const isThere = (status: Status): boolean => status === 'alive' || status === 'suspect';

export interface Member extends Entry {
  readonly status: Status;
  /** By this task's own clock. */
  readonly lastSeen: number;
  /** What to report when this life is first found alive; undefined once that is done. */
  readonly greeting: 'joined' | 'replaced' | undefined;
}

export interface MembershipSettings {
  readonly heartbeatMs: number;
  readonly suspectAfterMs: number;
  /** The bound within which a frozen or cut-off peer is found. */
  readonly deadAfterMs: number;
  /** Between attempts to reach somebody who is dead or was never heard of, at most. */
  readonly retryMs: number;
}

/** An address to try because the specification names it. */
export interface Contact {
  readonly task: TaskId;
  readonly address: string;
}

/** What a peer said about another task, until that task has been asked itself. */
export interface Claim {
  readonly entry: Entry;
  /** What the peer thinks of that life. */
  readonly opinion: Status;
  readonly by: TaskId;
}

export interface Membership {
  readonly self: Identity;
  /** The task whose orders count. */
  readonly chief: TaskId | undefined;
  readonly contacts: readonly Contact[];
  readonly settings: MembershipSettings;
  /** Every task ever heard of, this one included. */
  readonly members: ReadonlyMap<TaskId, Member>;
  readonly epoch: number;
  readonly digest: string;
  /** Whether anybody has taken note of this life. Before that its incarnation may still be raised. */
  readonly settled: boolean;
  /** The highest chief that gave an order or is in the map. */
  readonly fence: Identity | undefined;
  /** Claims that are being checked, by the life that they are about. */
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

/** An entry with the opinion of whoever passes it on. */
export interface View extends Entry {
  readonly status: Status;
}

/** What one task says to another, as a request or as the answer. */
export interface Message {
  readonly from: Entry;
  readonly digest: string;
  /** Lives that the sender holds for dead. */
  readonly lost: readonly Identity[];
  /** The sender's map, whole or the part that the receiver must hear. */
  readonly members: readonly View[];
}

/**
 * How a message came: `request` somebody called us, `heartbeat` or `announce` the answer to ours.
 */
export type Via = 'request' | 'heartbeat' | 'announce';

/** Why a call failed. `refused`: the host answers, but nobody listens there. */
export type Failure = 'refused' | 'reset' | 'timeout' | 'other';

export type Event =
  | { readonly type: 'start'; readonly now: number }
  | { readonly type: 'tick'; readonly now: number; readonly step?: number | null }
  | { readonly type: 'heard'; readonly now: number; readonly via: Via; readonly message: Message }
  | {
      readonly type: 'unreachable';
      readonly now: number;
      /** The life that was called: a later one at the same address is not touched by this. */
      readonly peer: Identity;
      readonly failure: Failure;
      /** Whether the call was made on a connection of its own. */
      readonly fresh: boolean;
    }
  /** The check of a claim is over. Who answered as that task has been heard before this. */
  | { readonly type: 'checked'; readonly now: number; readonly claim: Identity; readonly answered: boolean }
  | { readonly type: 'disconnected'; readonly now: number; readonly peer: Identity }
  | { readonly type: 'server'; readonly now: number; readonly serverAddress: string | null }
  | { readonly type: 'remove'; readonly now: number; readonly task: TaskId }
  | { readonly type: 'leave'; readonly now: number };

export type ExitReason =
  | { readonly kind: 'superseded'; readonly by: Entry }
  | { readonly kind: 'removed' }
  | { readonly kind: 'left' };

export type LostWhy = 'refused' | 'silent' | 'replaced' | 'confirmed';

export type Effect =
  /** Say that we are alive, on the standing connection. */
  | { readonly type: 'heartbeat'; readonly to: TaskId; readonly address: string }
  /** The same on a fresh connection, at once. */
  | { readonly type: 'probe'; readonly to: TaskId; readonly address: string }
  /** A probe of the address that a peer named for a life of the task. It ends with the event `checked`. */
  | { readonly type: 'check'; readonly to: TaskId; readonly address: string; readonly claim: Identity }
  /** Exchange whole maps. */
  | { readonly type: 'announce'; readonly to: TaskId; readonly address: string }
  | { readonly type: 'joined'; readonly member: Member }
  | { readonly type: 'suspected'; readonly member: Member }
  /** A suspect was heard of in time. */
  | { readonly type: 'trusted'; readonly member: Member }
  | { readonly type: 'lost'; readonly member: Member; readonly why: LostWhy }
  /** Alive after it was lost; `replaced` when it is another life. */
  | { readonly type: 'back'; readonly member: Member; readonly replaced: boolean }
  | { readonly type: 'left'; readonly member: Member }
  | { readonly type: 'epoch'; readonly epoch: number }
  /** A claim that nobody at the claimed address confirms; nothing follows from it. */
  | { readonly type: 'unproven'; readonly claim: Claim; readonly why: string }
  /** This process has no place in the cluster any more. */
  | { readonly type: 'exit'; readonly reason: Exclude<ExitReason, { kind: 'left' }> };

export interface Step {
  readonly state: Membership;
  readonly effects: readonly Effect[];
}
