/**
 * The outgoing side of membership: one standing connection to each peer that this task calls, a fresh one for
 * probes and announcements. At most one call of a kind is under way to an address, so a silent peer costs
 * one waiting request, not a queue.
 */
import { firstLineOf, isShoalError, messageOf } from '../../errors/errors.js';
import { messageTo } from '../membership/membership.js';
import type { Effect, Event, Membership } from '../membership/types.js';
import type { Security } from '../spec/security.js';
import type { TaskId } from '../spec/task-id.js';
import { AgentClient } from './agent-client.js';
import { PeerError } from './http-peer.js';

export type Call = Extract<Effect, { type: 'heartbeat' | 'probe' | 'announce' | 'check' }>;

export interface LinkOptions {
  readonly cluster: string;
  readonly security: Security;
  readonly timeoutMs: number;
  readonly state: () => Membership;
  readonly dispatch: (event: Event) => void;
  readonly now: () => number;
  /** A peer turned this task away, which time alone will not mend. */
  readonly onRefusal: (address: string, reason: string) => void;
}

interface Standing {
  readonly client: AgentClient;
  readonly task: TaskId;
}

interface UnderWay {
  /** Once more when it is back, and with how much time. */
  again: number | undefined;
  readonly done: Promise<void>;
}

export class Links {
  readonly #options: LinkOptions;
  readonly #standing = new Map<string, Standing>();
  readonly #underWay = new Map<string, UnderWay>();
  readonly #problems = new Map<string, string>();
  readonly #stop = new AbortController();

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** Why an address could not be reached the last time; undefined when it could. */
  problem(address: string): string | undefined {
    return this.#problems.get(address);
  }

  /** Makes the call and feeds what comes of it back in: when it resolves that is done. Never rejects. */
  call(call: Call, timeoutMs = this.#options.timeoutMs): Promise<void> {
    const key =
      call.type === 'check'
        ? `check ${call.to} ${call.claim.incarnation} ${call.claim.nonce} ${call.address}`
        : `${call.type} ${call.address}`;
    const underWay = this.#underWay.get(key);
    if (underWay !== undefined) {
      // What an announcement says may have changed since it left.
      if (call.type === 'announce') underWay.again = Math.max(timeoutMs, underWay.again ?? 0);
      return underWay.done;
    }
    const mine: UnderWay = { again: undefined, done: this.#repeat(call, key, timeoutMs) };
    this.#underWay.set(key, mine);
    return mine.done;
  }

  async #repeat(call: Call, key: string, timeoutMs: number): Promise<void> {
    await this.#once(call, timeoutMs);
    const again = this.#underWay.get(key)?.again;
    this.#underWay.delete(key);
    if (again !== undefined && !this.#stop.signal.aborted) await this.call(call, again);
  }

  async #once(call: Call, timeoutMs: number): Promise<void> {
    const { state, dispatch, now } = this.#options;
    const { type, to, address } = call;
    const checked = (answered: boolean) => {
      if (call.type === 'check') dispatch({ type: 'checked', now: now(), claim: call.claim, answered });
    };
    const known = state().members.get(to);
    const peer = known?.agentAddress === address ? known : undefined;
    const isStanding = type === 'heartbeat';
    const client = isStanding ? this.#stand(to, address) : this.#client(to, address);
    try {
      const message = messageTo(state(), type === 'announce');
      const kind = type === 'check' ? 'probe' : type;
      const answer = await client.exchange(kind, message, { timeoutMs, signal: this.#stop.signal });
      this.#problems.delete(address);
      dispatch({
        type: 'heard',
        now: now(),
        via: type === 'announce' ? 'announce' : 'heartbeat',
        message: answer,
      });
      checked(true);
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#note(address, error);
      const failure = error instanceof PeerError ? error.failure : 'other';
      if (peer !== undefined)
        dispatch({ type: 'unreachable', now: now(), peer, failure, fresh: !isStanding });
      checked(false);
    } finally {
      if (!isStanding) client.close();
    }
  }

  #note(address: string, error: unknown): void {
    const problem = firstLineOf(error);
    if (this.#problems.get(address) !== problem && isShoalError(error, 'SHOAL_FORBIDDEN')) {
      this.#options.onRefusal(address, messageOf(error));
    }
    this.#problems.set(address, problem);
  }

  /** The standing connection to an address, made when there is none for that task. */
  #stand(task: TaskId, address: string): AgentClient {
    const known = this.#standing.get(address);
    if (known?.task === task) return known.client;
    known?.client.close();
    const client = this.#client(task, address, () => this.#disconnected(task, address));
    this.#standing.set(address, { client, task });
    return client;
  }

  #disconnected(task: TaskId, address: string): void {
    const member = this.#options.state().members.get(task);
    if (member?.agentAddress !== address) return;
    this.#options.dispatch({ type: 'disconnected', now: this.#options.now(), peer: member });
  }

  #client(task: TaskId, address: string, onDisconnect?: () => void): AgentClient {
    const { security, cluster } = this.#options;
    return new AgentClient({
      address,
      task,
      security,
      cluster,
      maxSockets: 1,
      ...(onDisconnect && { onDisconnect }),
    });
  }

  /** Hangs up where nobody of the cluster is any more. */
  prune(): void {
    const members = this.#options.state().members;
    for (const [address, { client, task }] of this.#standing) {
      const member = members.get(task);
      if (member?.agentAddress === address && member.status !== 'left') continue;
      client.close();
      this.#standing.delete(address);
    }
  }

  /** Hangs up everywhere. */
  close(): void {
    this.#stop.abort();
    for (const { client } of this.#standing.values()) client.close();
    this.#standing.clear();
  }
}
