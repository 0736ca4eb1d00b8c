/**
 * A task in its cluster: the thin loop around the membership reducer. It owns the agent, the connections and
 * the timer, turns what happens into events, and carries out the effects.
 *
 *   asking → member → left | superseded | removed
 */

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { performance } from 'node:perf_hooks';
import { isShoalError, messageOf, ShoalError } from '../../errors/errors.js';
import { EXIT } from '../../errors/exit-codes.js';
import {
  type Agent,
  type AgentLimits,
  type OrderHandler,
  type RequestHandler,
  startAgent,
} from '../agent/agent.js';
import { AgentClient } from '../agent/agent-client.js';
import type { BlobPolicy } from '../agent/blob-access.js';
import { Links } from '../agent/links.js';
import type { ClusterStatus } from '../agent/wire.js';
import { MAX_LEAD } from '../membership/claims.js';
import { compareIdentity, type Identity } from '../membership/map.js';
import { initialState, judgeOrder, messageTo, reduce, refusalOfChief } from '../membership/membership.js';
import { membershipSettings } from '../membership/settings.js';
import type {
  Contact,
  Effect,
  Event,
  Member,
  Membership,
  MembershipSettings,
  Message,
} from '../membership/types.js';
import { formatAddress, isLoopback, parseAddress } from '../spec/address.js';
import type { ClusterSpec } from '../spec/cluster-spec.js';
import { advertisedAddress } from '../spec/own-address.js';
import type { Security } from '../spec/security.js';
import { compareTasks, type TaskId } from '../spec/task-id.js';
import { TaskEvents } from './task-events.js';
import { type WaitForOptions, type WhomToWaitFor, waitForMembers } from './wait-for.js';

export interface Clock {
  /** Milliseconds that only go forward. */
  now(): number;
  /** Milliseconds since 1970, as well as this machine knows. */
  wall(): number;
}

export const SYSTEM_CLOCK: Clock = { now: () => performance.now(), wall: () => Date.now() };

export interface JoinOptions {
  readonly spec: ClusterSpec;
  readonly self: TaskId;
  readonly security: Security;
  /** Where this task's TensorFlow server listens; null for a task without one. */
  readonly serverAddress?: string | null;
  readonly clusterName?: string;
  /** Where the agent listens: the address in the spec unless told. Port 0 is any free one. */
  readonly listen?: string | undefined;
  /** What the others are told, where that differs from where the agent listens. */
  readonly advertise?: string | undefined;
  readonly blobRoot?: string | undefined;
  /** Which role may write and delete which blobs; default: every role all of them. */
  readonly blobPolicy?: BlobPolicy | undefined;
  readonly settings?: Partial<MembershipSettings>;
  readonly limits?: Partial<AgentLimits>;
  /** The training step, for those who look at the cluster. */
  readonly step?: () => number | null;
  readonly metrics?: () => string | Promise<string>;
  readonly clock?: Clock;
  readonly nonce?: () => string;
  /** Whether membership in the cluster alone keeps the process running. Default: true. */
  readonly keepsProcess?: boolean | undefined;
  /** When it fires the task leaves. */
  readonly signal?: AbortSignal | undefined;
  /** Something that a person should know. */
  readonly onNotice?: (line: string) => void;
  /** This process has lost its place. Ends the process unless told otherwise. */
  readonly onExit?: (error: ShoalError) => void;
}

/** Starts the agent, asks the others, announces this task. Does not wait for anybody: see `waitFor`. */
export async function joinCluster(options: JoinOptions): Promise<ClusterTask> {
  const { spec, self, signal, security, onNotice } = options;
  const told = options.listen ?? spec.addressOf(self) ?? '127.0.0.1:0';
  const listen = parseAddress(told, `address of ${self}`, { allowPortZero: true });
  const task = new ClusterTask(options);
  const agent = await startAgent({
    cluster: options.clusterName ?? 'shoal',
    listen,
    security,
    hooks: task.hooks,
    blobRoot: options.blobRoot,
    onNotice: (line) => onNotice?.(`${self}: ${line}`),
    keepsProcess: options.keepsProcess,
    blobPolicy: options.blobPolicy,
    ...(options.limits && { limits: options.limits }),
  });
  if (security.kind === 'none') {
    onNotice?.(
      `${self}: no certificates and no cluster token, so the agent listens on ${formatAddress(agent.address)} only, for this machine alone`,
    );
  }
  const exposed = [told, ...spec.tasks.map(({ address }) => address)].find(
    (address) => !isLoopback(parseAddress(address, 'address', { allowPortZero: true }).host),
  );
  if (security.kind === 'token' && exposed !== undefined) {
    onNotice?.(
      `WARNING: ${self}: the cluster token travels over plain HTTP to and from ${exposed}. Whoever can read that ` +
        'network can read the token and control this cluster. Use certificates instead: shoal certs init',
    );
  }
  try {
    await task.begin(agent, options.advertise ?? advertisedAddress(agent.address, options));
  } catch (error) {
    await agent.close({ graceMs: 0 });
    throw error;
  }
  const leave = () => void task.leave().catch((error: unknown) => onNotice?.(messageOf(error)));
  if (signal?.aborted) leave();
  else signal?.addEventListener('abort', leave, { once: true });
  return task;
}

export class ClusterTask {
  readonly task: TaskId;
  readonly isChief: boolean;
  readonly events = new TaskEvents();
  readonly #options: JoinOptions;
  readonly #settings: MembershipSettings;
  readonly #clock: Clock;
  readonly #links: Links;
  readonly #clients = new Map<string, AgentClient>();
  readonly #started: number;
  readonly #unproven = new Map<string, string>();
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
    this.#links = new Links({
      cluster: this.#cluster,
      security: options.security,
      timeoutMs: Math.max(this.#settings.suspectAfterMs, 500),
      state: () => this.#now(),
      dispatch: (event) => this.#dispatch(event),
      now: () => this.#clock.now(),
      onRefusal: (_, reason) => options.onNotice?.(`${this.task}: ${reason}`),
    });
  }

  get #cluster(): string {
    return this.#options.clusterName ?? 'shoal';
  }

  #now(): Membership {
    if (this.#state !== undefined) return this.#state;
    throw new ShoalError('SHOAL_UNREACHABLE', `${this.task} is starting`, { task: this.task });
  }

  /** What the agent asks of this task. */
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
    exchange: (message: Message, whole: boolean) => {
      this.#now();
      this.#dispatch({ type: 'heard', now: this.#clock.now(), via: 'request', message });
      return messageTo(this.#now(), whole, message.from);
    },
    judge: (from: Identity) => {
      const { state, refused } = judgeOrder(this.#now(), from);
      this.#state = state;
      return refused;
    },
    judgeCaller: (from: Identity) => {
      const known = this.member(from.task);
      // A life that was not heard of yet may be ahead of its announcement.
      if (known === undefined || compareIdentity(from, known) >= 0) return undefined;
      return `${from.task} of incarnation ${from.incarnation} has been replaced`;
    },
    judgeWriter: (from: Identity, orderedBy: Identity | undefined) => {
      // What the chief writes in its own name counts as its order does, and fences its predecessors.
      const refused = from.task === this.chief ? this.hooks.judge(from) : this.hooks.judgeCaller(from);
      // Somebody else's word for a chief is no proof that there is one: it raises no fence.
      return refused ?? (orderedBy && refusalOfChief(this.#now(), orderedBy));
    },
    chief: () => this.chief,
    disconnected: (peer: Identity) => {
      if (this.#state !== undefined) this.#dispatch({ type: 'disconnected', now: this.#clock.now(), peer });
    },
    metrics: () => this.#options.metrics?.() ?? '',
  };

  /** Called once by `joinCluster`, when the agent listens. */
  async begin(agent: Agent, agentAddress: string): Promise<void> {
    this.#agent = agent;
    const { spec, serverAddress = null, nonce = () => randomBytes(9).toString('base64url') } = this.#options;
    const contacts = spec.tasks.map(({ id, address }): Contact => ({ task: id, address }));
    const seen = await this.#ask(contacts.filter(({ address }) => address !== agentAddress));
    const incarnation =
      seen.length > 0
        ? Math.max(...seen.map((entry) => entry.incarnation)) + 1
        : Math.max(1, Math.floor(this.#clock.wall()));
    const first = Math.min(incarnation, ...seen.map((entry) => entry.first));
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
    this.#dispatch({ type: 'start', now: this.#clock.now() });
    this.#timer = setInterval(() => {
      const { step } = this.#options;
      this.#dispatch({ type: 'tick', now: this.#clock.now(), ...(step && { step: step() }) });
      this.#links.prune();
    }, this.#settings.heartbeatMs / 2);
    if (this.#options.keepsProcess === false) this.#timer.unref();
  }

  /** What the others remember of earlier lives of this task. Who does not answer soon is not waited for. */
  async #ask(contacts: readonly Contact[]): Promise<readonly { incarnation: number; first: number }[]> {
    const timeoutMs = Math.min(1000, this.#settings.suspectAfterMs);
    const answers = contacts.map(async ({ task, address }) => {
      const client = this.#makeClient(task, address);
      try {
        const { members } = await client.status({ timeoutMs, once: true });
        const limit = this.#clock.wall() + MAX_LEAD;
        return members.filter((member) => member.task === this.task && member.incarnation <= limit);
      } catch (error) {
        if (isShoalError(error, 'SHOAL_FORBIDDEN'))
          this.#options.onNotice?.(`${this.task}: ${messageOf(error)}`);
        return [];
      } finally {
        client.close();
      }
    });
    return (await Promise.all(answers)).flat();
  }

  /** This life of the task. */
  get identity(): Identity {
    return this.#now().self;
  }

  /** Counts the changes that oblige workers to make a fresh session. */
  get epoch(): number {
    return this.#now().epoch;
  }

  get agentAddress(): string {
    return this.member(this.task)!.agentAddress;
  }

  /** The task whose orders count. */
  get chief(): TaskId | undefined {
    return this.#now().chief;
  }

  /** Every task heard of, this one included, in order. */
  members(): readonly Member[] {
    return [...this.#now().members.values()].sort((a, b) => compareTasks(a.task, b.task));
  }

  member(task: TaskId): Member | undefined {
    return this.#now().members.get(task);
  }

  status(): ClusterStatus {
    const { epoch, chief, self, members } = this.#now();
    const now = this.#clock.now();
    return {
      cluster: this.#cluster,
      epoch,
      chief: chief ?? null,
      self,
      members: [...members.values()].map(({ lastSeen, greeting: _, ...view }) => ({
        ...view,
        silentMs: view.task === this.task ? 0 : Math.max(0, Math.round(now - lastSeen)),
      })),
    };
  }

  /** Waits until the tasks are alive, or until a predicate names nobody any more. Says whom it waits for. */
  waitFor(whom: WhomToWaitFor, options: WaitForOptions): Promise<void> {
    return waitForMembers(this, whom, options, (task) => {
      const address = this.member(task)?.agentAddress ?? this.#options.spec.addressOf(task);
      return address === undefined
        ? undefined
        : (this.#links.problem(address) ?? `agent ${address} was not heard of`);
    });
  }

  /** A client for the agent of a member, wherever it lives at the moment. */
  client(task: TaskId): AgentClient {
    const member = this.member(task);
    if (member === undefined) {
      throw new ShoalError('SHOAL_NOT_FOUND', `${task} has not been heard of`, {
        task,
        hint: 'wait for it first',
      });
    }
    const key = `${task} ${member.agentAddress}`;
    const known = this.#clients.get(key);
    if (known !== undefined) return known;
    for (const [other, client] of this.#clients) {
      if (!other.startsWith(`${task} `)) continue;
      client.close();
      this.#clients.delete(other);
    }
    const client = this.#makeClient(task, member.agentAddress);
    this.#clients.set(key, client);
    return client;
  }

  #makeClient(task: TaskId, address: string): AgentClient {
    const { security } = this.#options;
    const identity = () => this.identity;
    return new AgentClient({ address, task, security, cluster: this.#cluster, identity });
  }

  onOrder(name: string, handler: OrderHandler): void {
    this.#agent!.onOrder(name, handler);
  }

  /** Why this task may not change blobs on its own disk, as far as it knows; undefined when it may. */
  ownRefusal(orderedBy?: Identity): string | undefined {
    const state = this.#now();
    if (state.over?.kind === 'superseded') return `${this.task} has been replaced`;
    if (state.over?.kind === 'removed') return `${this.task} has been removed from the cluster`;
    return orderedBy && refusalOfChief(state, orderedBy);
  }

  /** Gives an order to a task in this one's name; only the chief's are obeyed. */
  order(
    to: TaskId,
    name: string,
    payload?: unknown,
    options: { timeoutMs?: number; signal?: AbortSignal; again?: boolean } = {},
  ): Promise<unknown> {
    return this.client(to).order(name, this.identity, payload, options);
  }

  /** Answers what other tasks, whoever they are, ask for by this name; gives the function that ends it. */
  onRequest(name: string, handler: RequestHandler): () => void {
    return this.#agent!.onRequest(name, handler);
  }

  /** Asks another task for something: once, unless the caller says `again`. */
  request(
    to: TaskId,
    name: string,
    payload?: unknown,
    options: { readonly timeoutMs?: number; readonly signal?: AbortSignal | undefined; again?: boolean } = {},
  ): Promise<unknown> {
    return this.client(to).request(name, this.identity, payload, options);
  }

  /** Tells everybody that this task's TensorFlow server has moved. */
  moveServer(serverAddress: string | null): void {
    this.#dispatch({ type: 'server', now: this.#clock.now(), serverAddress });
  }

  /** Takes a task out of the cluster for good; if it runs, it exits when it hears of it. */
  remove(task: TaskId): void {
    if (!this.isChief) {
      throw new ShoalError('SHOAL_FORBIDDEN', `${this.task} cannot remove ${task}: it is not the chief`, {
        task: this.task,
      });
    }
    this.#dispatch({ type: 'remove', now: this.#clock.now(), task });
  }

  /** Says good-bye and closes. Who does not hear it in time will take this task for lost. Done twice it is done once. */
  leave({ timeoutMs = 5000 }: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#ending ??= this.#leave(timeoutMs);
    return this.#ending;
  }

  async #leave(timeoutMs: number): Promise<void> {
    const { state, effects } = reduce(this.#now(), { type: 'leave', now: this.#clock.now() });
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
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
    await this.#agent?.close();
  }

  #dispatch(event: Event): void {
    const { state, effects } = reduce(this.#now(), event);
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
        this.#reportUnproven(effect);
        return;
      case 'exit':
        this.#ending ??= this.#exit(effect);
        return;
      default:
        this.events.emit(effect);
    }
  }

  /** Once for each claim in a row: whoever insists on it does so with every message. */
  #reportUnproven({ claim: { entry, by }, why }: Extract<Effect, { type: 'unproven' }>): void {
    const about = `${by} about ${entry.task}`;
    const life = `incarnation ${entry.incarnation} of ${entry.task} runs at ${entry.agentAddress}`;
    if (this.#unproven.get(about) === life) return;
    this.#unproven.set(about, life);
    this.#options.onNotice?.(`${this.task}: ${by} claims that ${life}; ignored, as ${why}`);
  }

  /** The answer that is being given goes out first: what this task knows may be news to its successor. */
  async #exit(effect: Extract<Effect, { type: 'exit' }>): Promise<void> {
    const { reason } = effect;
    const why =
      reason.kind === 'removed'
        ? 'the chief has removed it'
        : `incarnation ${reason.by.incarnation} at ${reason.by.agentAddress} has taken its place`;
    const error = new ShoalError(
      'SHOAL_FORBIDDEN',
      `${this.task} has no place in the cluster any more: ${why}`,
      {
        task: this.task,
      },
    );
    this.events.emit(effect);
    await this.#close();
    this.#options.onNotice?.(error.message);
    if (this.#options.onExit) this.#options.onExit(error);
    else await endProcess();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave();
  }
}

/** An ordinary exit could wait for ever for a call into TensorFlow whose peer is gone. */
async function endProcess(): Promise<void> {
  const { exitAtOnce } = await import('../../native/exit.js');
  process.exitCode = EXIT.superseded;
  process.emit('exit', EXIT.superseded);
  exitAtOnce(EXIT.superseded);
}
