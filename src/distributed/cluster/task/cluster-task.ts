/**
 * A task in its cluster: the event loop around the membership reducer. It owns the agent, the connections and the
 * timer, dispatches events and performs the effects.
 *
 *   starting → member → left | superseded | removed
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { sleep } from '../../../base/async/deadline.js';
import { describeError, ShoalError } from '../../../base/errors/errors.js';
import type { Metrics } from '../../../base/metrics/metrics.js';
import { type Agent, startAgent } from '../agent/agent.js';
import { AgentClient, type Stream, type StreamOptions } from '../agent/agent-client.js';
import type { OrderHandler, RequestHandler } from '../agent/agent-options.js';
import { Links } from '../agent/links.js';
import { Pulse } from '../agent/pulse.js';
import type { StreamHandler } from '../agent/streams.js';
import { Traffic } from '../agent/traffic.js';
import type { ClusterStatus } from '../agent/wire.js';
import {
  admit,
  admitOrder,
  type FenceVerdict,
  isReplacedBy,
  REPLACED,
  refusalOfChief,
} from '../membership/fence.js';
import type { Identity } from '../membership/map.js';
import { blockedMs, initialState, messageTo, reduceMembership } from '../membership/membership.js';
import { membershipSettings } from '../membership/settings.js';
import {
  type Contact,
  type Effect,
  type Event,
  isPresent,
  type Member,
  type Membership,
  type MembershipMessage,
  type MembershipSettings,
} from '../membership/types.js';
import { watchersOf } from '../membership/watch.js';
import { parseAddress } from '../spec/address.js';
import { advertisedAddress } from '../spec/own-address.js';
import { compareTasks, type TaskId } from '../spec/task-id.js';
import { busyText, clusterStatus } from './cluster-status.js';
import { areMost, earlierIncarnations } from './earlier-incarnations.js';
import { reportExposure } from './exposure.js';
import { type Clock, type JoinOptions, SYSTEM_CLOCK } from './join-options.js';
import { PeerClients } from './peer-clients.js';
import { endReplaced, exitError, unlessReplaced } from './replaced.js';
import { TaskEvents } from './task-events.js';
import { taskMetrics } from './task-metrics.js';
import { UnprovenClaims } from './unproven-claims.js';
import { type TasksToAwait, type WaitForOptions, waitForMembers } from './wait-for.js';

/** Starts the agent and announces this task to the others. Does not wait for them: see `waitFor`. */
export async function joinCluster(options: JoinOptions): Promise<ClusterTask> {
  const { spec, self, signal, security, onNotice } = options;
  const given = options.listen ?? spec.addressOf(self) ?? '127.0.0.1:0';
  const listen = parseAddress(given, `address of ${self}`, { allowPortZero: true });
  const task = new ClusterTask(options);
  const agent = await startAgent({
    cluster: options.clusterName ?? 'shoal',
    listen,
    task: self,
    security,
    hooks: task.hooks,
    blobRoot: options.blobRoot,
    onNotice: (line, level) => onNotice?.(`${self}: ${line}`, level),
    keepsProcess: options.keepsProcess,
    blobPolicy: options.blobPolicy,
    traffic: task.traffic,
    limits: options.limits,
    pages: options.pages,
  });
  reportExposure(options, given, agent.address);
  try {
    await task.begin(agent, options.advertise ?? advertisedAddress(agent.address, options));
  } catch (error) {
    await agent.close({ graceMs: 0 });
    throw error;
  }
  const leave = () => void task.leave().catch((error: unknown) => onNotice?.(describeError(error), 'warn'));
  if (signal?.aborted) leave();
  else signal?.addEventListener('abort', leave, { once: true });
  return task;
}

export class ClusterTask {
  readonly task: TaskId;
  readonly isChief: boolean;
  readonly events = new TaskEvents();
  /** The bytes of all connections between this task's agent and others. @internal */
  readonly traffic = new Traffic();
  /** What the agent serves at `/metrics`. @internal */
  readonly metrics: Metrics;
  /** Registers the handler of what operators ask for; returns the function that removes it. @internal */
  readonly onOperation: Agent['onOperation'] = (...args) => this.#agent!.onOperation(...args);
  readonly #options: JoinOptions;
  readonly #settings: MembershipSettings;
  readonly #clock: Clock;
  readonly #links: Links;
  readonly #clients = new PeerClients((task, address) => this.#makeClient(task, address));
  readonly #started: number;
  readonly #unproven: UnprovenClaims;
  #pulse: Pulse | undefined;
  #agent: Agent | undefined;
  #state: Membership | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ending: Promise<void> | undefined;

  constructor(options: JoinOptions) {
    this.#options = options;
    this.task = options.self;
    this.isChief = options.spec.isChief(options.self);
    this.#settings = membershipSettings(options.settings);
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    this.#started = this.#clock.now();
    this.#unproven = new UnprovenClaims(this.task, options.onNotice);
    this.metrics = taskMetrics({
      cluster: this.#cluster,
      task: this.task,
      state: () => this.#state,
      traffic: this.traffic,
    });
    this.#links = new Links({
      cluster: this.#cluster,
      security: options.security,
      timeoutMs: Math.max(this.#settings.suspectAfterMs, 500),
      traffic: this.traffic,
      state: () => this.#now(),
      dispatch: (event) => this.#dispatch(event),
      now: () => this.#clock.now(),
      onRefusal: (_, reason) => options.onNotice?.(`${this.task}: ${reason}`),
      // A task ends that no peer has recorded, so that nothing depends on it, and that cannot work with most of them.
      onMismatch: ({ message: why, hint }, peers) => {
        const others = options.spec.tasks.filter(({ id }) => id !== options.self);
        if (!this.#now().settled && areMost(peers, others.length))
          this.#perform({ type: 'exit', reason: { kind: 'incompatible', why, hint } });
      },
    });
  }

  get #cluster(): string {
    return this.#options.clusterName ?? 'shoal';
  }

  #now(): Membership {
    if (this.#state !== undefined) return this.#state;
    throw new ShoalError('SHOAL_UNREACHABLE', `${this.task} is still starting`, { task: this.task });
  }

  /** The agent's hooks. @internal */
  readonly hooks = {
    health: () => {
      const { incarnation } = this.#now().self;
      const uptimeMs = this.#clock.now() - this.#started;
      return {
        cluster: this.#cluster,
        task: this.task,
        incarnation,
        pid: process.pid,
        host: hostname(),
        uptimeMs,
      };
    },
    status: () => this.status(),
    exchange: (message: MembershipMessage, complete: boolean) => {
      this.#now();
      this.#dispatch({ type: 'heard', now: this.#clock.now(), via: 'request', message });
      return messageTo(this.#now(), complete, message.from);
    },
    judge: (from: Identity) => this.#judge(admitOrder(this.#now(), from)),
    judgeCaller: (from: Identity) => this.#judge(admit(this.#now(), from)),
    judgeWriter: (from: Identity, orderedBy: Identity | undefined) => {
      // A write by the chief itself is treated as an order: it fences the chief's predecessors.
      const refused = from.task === this.chief ? this.hooks.judge(from) : this.hooks.judgeCaller(from);
      // Another task's claim to act for a chief proves nothing, so it does not raise the fence.
      return refused ?? (orderedBy && refusalOfChief(this.#now(), orderedBy));
    },
    chief: () => this.chief,
    pulse: (from: Identity) => {
      if (this.#state !== undefined) this.#dispatch({ type: 'pulse', now: this.#clock.now(), from });
    },
    disconnected: (peer: Identity) => {
      if (this.#state !== undefined) this.#dispatch({ type: 'disconnected', now: this.#clock.now(), peer });
    },
    metrics: () => this.metrics.text(),
  };

  #judge({ state, refused }: FenceVerdict): string | undefined {
    this.#state = state;
    return refused;
  }

  /** Called once by `joinCluster`, after the agent started. @internal */
  async begin(agent: Agent, agentAddress: string): Promise<void> {
    this.#agent = agent;
    const { spec, serverAddress = null, nonce = () => nonceAt(this.#clock.wall()) } = this.#options;
    const contacts = spec.tasks.map(({ id, address }): Contact => ({ task: id, address }));
    const seen = await earlierIncarnations(this.task, {
      contacts: contacts.filter(({ address }) => address !== agentAddress),
      clientOf: ({ task, address }) => this.#makeClient(task, address),
      timeoutMs: Math.min(1000, this.#settings.suspectAfterMs),
      wall: this.#clock.wall(),
      onNotice: (line, level) => this.#options.onNotice?.(`${this.task}: ${line}`, level),
    });
    const incarnation =
      seen.length > 0
        ? Math.max(...seen.map((entry) => entry.incarnation)) + 1
        : Math.max(1, Math.floor(this.#clock.wall()));
    const first = Math.min(incarnation, ...seen.map((entry) => entry.first));
    const former = seen.find(({ status }) => isPresent(status));
    if (former) {
      this.#options.onNotice?.(
        `${this.task}: takes over from the process at ${former.agentAddress}, which is alive for the others; it will exit`,
        'warn',
      );
    }
    this.#state = initialState({
      self: {
        task: this.task,
        incarnation,
        first,
        nonce: nonce(),
        agentAddress,
        serverAddress,
        host: hostname(),
        pid: process.pid,
      },
      chief: spec.chief,
      contacts,
      settings: this.#settings,
      now: this.#clock.now(),
    });
    const { security, onNotice } = this.#options;
    this.#pulse = new Pulse({ cluster: this.#cluster, security, settings: this.#settings, onNotice });
    this.#dispatch({ type: 'start', now: this.#clock.now() });
    this.#updatePulse();
    this.#timer = setInterval(() => {
      const { step } = this.#options;
      this.#updatePulse();
      this.#dispatch({ type: 'tick', now: this.#clock.now(), ...(step && { step: step() }) });
      this.#links.prune();
      this.#clients.prune(this.#now().members);
    }, this.#settings.heartbeatMs / 2);
    if (this.#options.keepsProcess === false) this.#timer.unref();
  }

  #updatePulse(): void {
    this.#pulse?.beat();
    this.#pulse?.update(this.#now().self, watchersOf(this.#now()));
  }

  get identity(): Identity {
    return this.#now().self;
  }

  /** Rises with each change that requires workers to open a new session. */
  get epoch(): number {
    return this.#now().epoch;
  }

  get agentAddress(): string {
    return this.member(this.task)!.agentAddress;
  }

  get chief(): TaskId | undefined {
    return this.#now().chief;
  }

  /** Whether the cluster specification lists the task; elastic workers are not listed. @internal */
  isListed(task: TaskId): boolean {
    return this.#options.spec.addressOf(task) !== undefined;
  }

  /** All known tasks, this one included, in order. */
  members(): readonly Member[] {
    return [...this.#now().members.values()].sort((a, b) => compareTasks(a.task, b.task));
  }

  member(task: TaskId): Member | undefined {
    return this.#now().members.get(task);
  }

  status(): ClusterStatus {
    return clusterStatus(this.#cluster, this.#now(), this.#clock.now());
  }

  /** Waits until the tasks are alive, or until a function returns no missing tasks. Reports which are missing. */
  waitFor(whom: TasksToAwait, options: WaitForOptions): Promise<void> {
    return waitForMembers(this, whom, options, (task) => {
      const member = this.member(task);
      const busyMs = member && blockedMs(member, this.#settings, this.#clock.now());
      if (busyMs !== undefined) return busyText(busyMs);
      const address = member?.agentAddress ?? this.#options.spec.addressOf(task);
      return address === undefined
        ? undefined
        : (this.#links.problem(address) ?? `agent ${address} has not responded yet`);
    });
  }

  /** A client for the agent of a member at its current address. @internal */
  client(task: TaskId): AgentClient {
    const member = this.member(task);
    if (member === undefined) {
      throw new ShoalError('SHOAL_NOT_FOUND', `${task} is not a known member of the cluster`, {
        task,
        hint: 'wait until it has joined: see waitFor',
      });
    }
    return this.#clients.of(member);
  }

  #makeClient(task: TaskId, address: string): AgentClient {
    const { security } = this.#options;
    const identity = () => this.identity;
    const { traffic } = this;
    const caller = this.task;
    return new AgentClient({ address, task, security, cluster: this.#cluster, caller, identity, traffic });
  }

  /** When another process last read or wrote blobs here, by `performance.now`; never: minus infinity. @internal */
  get transferredAt(): number {
    return this.#agent?.transferredAt ?? Number.NEGATIVE_INFINITY;
  }

  /** @internal */
  onOrder(name: string, handler: OrderHandler): void {
    this.#agent!.onOrder(name, handler);
  }

  /** Why this task may not change blobs on its own disk, as far as it knows; undefined when allowed. @internal */
  ownRefusal(orderedBy?: Identity): string | undefined {
    const state = this.#now();
    if (state.over?.kind === 'superseded') return `${this.task} has been replaced`;
    if (state.over?.kind === 'removed') return `${this.task} has been removed from the cluster`;
    return orderedBy && refusalOfChief(state, orderedBy);
  }

  /** Sends an order to a task; tasks accept orders of the chief only. @internal */
  order(
    to: TaskId,
    name: string,
    payload?: unknown,
    options: { timeoutMs?: number; signal?: AbortSignal; again?: boolean } = {},
  ): Promise<unknown> {
    const call = this.client(to).order(name, this.identity, payload, options);
    return unlessReplaced(call, () => this.#learnOfSuccessor(to));
  }

  /** Asks a task that has refused this process for its successor, and waits for the end of this process. */
  async #learnOfSuccessor(from: TaskId): Promise<void> {
    await this.#links.call({ type: 'announce', to: from, address: this.member(from)!.agentAddress });
    const end = this.#clock.now() + 2 * (this.#settings.retryMs + this.#settings.suspectAfterMs);
    while (this.#ending === undefined && this.#clock.now() < end) await sleep(10);
    await this.#ending;
  }

  /** Asks a task whether this process is still the latest of its task; rejects with SHOAL_FORBIDDEN if not. @internal */
  async confirmCurrent(by: TaskId, options: { readonly timeoutMs: number }): Promise<void> {
    const { members } = await this.client(by).status(options);
    const known = members.find(({ task }) => task === this.task);
    if (known === undefined || !isReplacedBy(this.identity, known)) return;
    await this.#learnOfSuccessor(by);
    throw new ShoalError('SHOAL_FORBIDDEN', `${this.task} ${REPLACED}`, { task: this.task });
  }

  /** Registers the handler of a request of any task; returns the function that removes it. @internal */
  onRequest(name: string, handler: RequestHandler): () => void {
    return this.#agent!.onRequest(name, handler);
  }

  /**
   * Sends a request to another task. Retried only with `again`, which the caller sets for idempotent requests.
   * @internal
   */
  request(
    to: TaskId,
    name: string,
    payload?: unknown,
    options: { readonly timeoutMs?: number; readonly signal?: AbortSignal; again?: boolean } = {},
  ): Promise<unknown> {
    const call = this.client(to).request(name, this.identity, payload, options);
    return unlessReplaced(call, () => this.#learnOfSuccessor(to));
  }

  /** Registers the handler of streams with a protocol; returns the function that removes it. @internal */
  onStream(protocol: string, handler: StreamHandler): () => void {
    return this.#agent!.onUpgrade(protocol, handler);
  }

  /** Opens a stream to another task. It belongs to the caller, who closes it. @internal */
  openStream(to: TaskId, protocol: string, options: StreamOptions): Promise<Stream> {
    const opening = this.client(to).upgrade(protocol, this.identity, options);
    return unlessReplaced(opening, () => this.#learnOfSuccessor(to));
  }

  /** Announces a new address of this task's TensorFlow server. */
  moveServer(serverAddress: string | null): void {
    this.#dispatch({ type: 'server', now: this.#clock.now(), serverAddress });
  }

  /** Removes a task from the cluster permanently; its process exits when it learns of that. */
  remove(task: TaskId): void {
    if (!this.isChief) {
      throw new ShoalError('SHOAL_FORBIDDEN', `${this.task} cannot remove ${task}: it is not the chief`, {
        task: this.task,
      });
    }
    this.#dispatch({ type: 'remove', now: this.#clock.now(), task });
  }

  /**
   * Sends the leave message and closes. A task that does not receive it within `timeoutMs` (default: 5 s) considers
   * this one lost. Idempotent.
   */
  leave({ timeoutMs = 5000 }: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#ending ??= this.#leave(timeoutMs);
    return this.#ending;
  }

  async #leave(timeoutMs: number): Promise<void> {
    const { state, effects } = reduceMembership(this.#now(), { type: 'leave', now: this.#clock.now() });
    this.#state = state;
    clearInterval(this.#timer);
    const calls = effects.flatMap((effect) =>
      effect.type === 'announce' ? [this.#links.call(effect, timeoutMs)] : [],
    );
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((done) => {
      timer = setTimeout(done, timeoutMs);
    });
    await Promise.race([Promise.all(calls), late]);
    clearTimeout(timer);
    await this.#close();
  }

  async #close(): Promise<void> {
    clearInterval(this.#timer);
    this.#links.close();
    this.#clients.close();
    await Promise.all([this.#agent?.close(), this.#pulse?.close()]);
  }

  #dispatch(event: Event): void {
    const { state, effects } = reduceMembership(this.#now(), event);
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
  }

  #perform(effect: Effect): void {
    switch (effect.type) {
      case 'heartbeat':
      case 'probe':
      case 'announce':
      case 'check':
        void this.#links.call(effect);
        return;
      case 'unproven':
        this.#unproven.report(effect);
        return;
      case 'exit':
        this.#ending ??= this.#exit(effect);
        return;
      case 'lost':
      case 'left':
        this.#agent!.endStreams(effect.member);
        break;
      case 'joined':
      case 'back':
        this.#agent!.supersede(effect.member);
        break;
    }
    this.events.emit(effect);
  }

  /** Closes after pending replies are sent: the successor may need the information in them. */
  async #exit(effect: Extract<Effect, { type: 'exit' }>): Promise<void> {
    const error = exitError(this.task, effect.reason);
    this.events.emit(effect);
    await this.#close();
    this.#options.onNotice?.(describeError(error), 'warn');
    if (this.#options.onExit) this.#options.onExit(error);
    else endReplaced(error);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave();
  }
}

/**
 * Two processes that start when the others know neither of them take the same incarnation. Of these the one that was
 * started last replaces the other, as far as their clocks agree: nonces are compared as text.
 */
function nonceAt(wall: number): string {
  const started = Math.max(0, Math.floor(wall)).toString(36).padStart(9, '0');
  return `${started}${randomBytes(9).toString('base64url')}`;
}
