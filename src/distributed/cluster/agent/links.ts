/**
 * Outgoing membership calls: one persistent connection to each peer that this task sends heartbeats to, a new one
 * for each probe and announcement. At most one call of a kind is in flight to an address, so a silent peer costs one
 * waiting request, not a queue.
 */
import { describeError, firstLineOf, isShoalError, type ShoalError } from '../../../base/errors/errors.js';
import { messageTo } from '../membership/membership.js';
import type { Effect, Event, Membership } from '../membership/types.js';
import type { Security } from '../spec/security.js';
import type { TaskId } from '../spec/task-id.js';
import { AgentClient } from './agent-client.js';
import { PeerError } from './http-peer.js';
import type { Traffic } from './traffic.js';

export type PeerCall = Extract<Effect, { type: 'heartbeat' | 'probe' | 'announce' | 'check' }>;

export interface LinkOptions {
  readonly cluster: string;
  readonly security: Security;
  readonly timeoutMs: number;
  readonly traffic?: Traffic;
  readonly state: () => Membership;
  readonly dispatch: (event: Event) => void;
  readonly now: () => number;
  /** A peer rejected this task: retrying will not help. */
  readonly onRefusal: (address: string, reason: string) => void;
  /** A peer of a release that cannot work with this one has answered; `peers` counts the addresses of such peers. */
  readonly onMismatch: (error: ShoalError, peers: number) => void;
}

interface Connection {
  readonly client: AgentClient;
  readonly task: TaskId;
}

interface Inflight {
  /** The timeout of the call to make after this one; undefined for none. */
  again: number | undefined;
  readonly done: Promise<void>;
}

export class Links {
  readonly #options: LinkOptions;
  readonly #connections = new Map<string, Connection>();
  readonly #inflight = new Map<string, Inflight>();
  readonly #problems = new Map<string, string>();
  /** The addresses whose last answer was that the releases cannot work together. */
  readonly #mismatched = new Set<string>();
  readonly #stop = new AbortController();

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** Why the last call to an address failed; undefined when it succeeded. */
  problem(address: string): string | undefined {
    return this.#problems.get(address);
  }

  /** Makes the call and dispatches its outcome, then resolves. Never rejects. */
  call(call: PeerCall, timeoutMs = this.#options.timeoutMs): Promise<void> {
    const key =
      call.type === 'check'
        ? `check ${call.to} ${call.claim.incarnation} ${call.claim.nonce} ${call.address}`
        : `${call.type} ${call.address}`;
    const inflight = this.#inflight.get(key);
    if (inflight !== undefined) {
      // The state may have changed since the announcement was sent.
      if (call.type === 'announce') inflight.again = Math.max(timeoutMs, inflight.again ?? 0);
      return inflight.done;
    }
    const mine: Inflight = { again: undefined, done: this.#repeat(call, key, timeoutMs) };
    this.#inflight.set(key, mine);
    return mine.done;
  }

  async #repeat(call: PeerCall, key: string, timeoutMs: number): Promise<void> {
    await this.#once(call, timeoutMs);
    const again = this.#inflight.get(key)?.again;
    this.#inflight.delete(key);
    if (again !== undefined && !this.#stop.signal.aborted) await this.call(call, again);
  }

  async #once(call: PeerCall, timeoutMs: number): Promise<void> {
    const { state, dispatch, now } = this.#options;
    const { type, to, address } = call;
    const checked = (answered: boolean) => {
      if (call.type === 'check') dispatch({ type: 'checked', now: now(), claim: call.claim, answered });
    };
    const known = state().members.get(to);
    const peer = known?.agentAddress === address ? known : undefined;
    const isPersistent = type === 'heartbeat';
    const client = isPersistent ? this.#connect(to, address) : this.#client(to, address);
    try {
      const message = messageTo(state(), type === 'announce');
      const kind = type === 'check' ? 'probe' : type;
      const answer = await client.exchange(kind, message, { timeoutMs, signal: this.#stop.signal });
      this.#problems.delete(address);
      this.#mismatched.delete(address);
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
        dispatch({ type: 'unreachable', now: now(), peer, failure, fresh: !isPersistent });
      checked(false);
    } finally {
      if (!isPersistent) client.close();
    }
  }

  #note(address: string, error: unknown): void {
    const problem = firstLineOf(error);
    const isMismatch = isShoalError(error, 'SHOAL_VERSION_MISMATCH');
    if (this.#problems.get(address) !== problem && (isMismatch || isShoalError(error, 'SHOAL_FORBIDDEN'))) {
      this.#options.onRefusal(address, describeError(error));
    }
    this.#problems.set(address, problem);
    if (!isMismatch) return;
    this.#mismatched.add(address);
    this.#options.onMismatch(error, this.#mismatched.size);
  }

  /** The persistent connection to an address, opened if there is none for that task. */
  #connect(task: TaskId, address: string): AgentClient {
    const known = this.#connections.get(address);
    if (known?.task === task) return known.client;
    known?.client.close();
    const client = this.#client(task, address, () => this.#disconnected(task, address));
    this.#connections.set(address, { client, task });
    return client;
  }

  #disconnected(task: TaskId, address: string): void {
    const member = this.#options.state().members.get(task);
    if (member?.agentAddress !== address) return;
    this.#options.dispatch({ type: 'disconnected', now: this.#options.now(), peer: member });
  }

  #client(task: TaskId, address: string, onDisconnect?: () => void): AgentClient {
    const { security, cluster, traffic } = this.#options;
    return new AgentClient({
      address,
      task,
      caller: this.#options.state().self.task,
      security,
      cluster,
      maxSockets: 1,
      traffic,
      onDisconnect,
    });
  }

  /** Closes connections to addresses that no member uses, and forgets their failures. */
  prune(): void {
    const members = this.#options.state().members;
    for (const [address, { client, task }] of this.#connections) {
      const member = members.get(task);
      if (member?.agentAddress === address && member.status !== 'left') continue;
      client.close();
      this.#connections.delete(address);
    }
    if (this.#problems.size === 0) return;
    const current = new Set([
      ...[...members.values()].map(({ agentAddress }) => agentAddress),
      ...this.#options.state().contacts.map(({ address }) => address),
    ]);
    for (const address of this.#problems.keys()) if (!current.has(address)) this.#problems.delete(address);
  }

  close(): void {
    this.#stop.abort();
    for (const { client } of this.#connections.values()) client.close();
    this.#connections.clear();
  }
}
