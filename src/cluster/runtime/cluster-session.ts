/**
 * A session that outlives its peers. For each epoch of the cluster it holds one TensorFlow session over the
 * ps of the moment; when a ps is replaced the next run opens another, and no process restarts. Nothing here
 * waits without end: every peer is asked before a session is opened, because TensorFlow waits for ever for one
 * that is dead or frozen, and runs under way are given up when a ps of theirs is lost.
 */
import { setMaxListeners } from 'node:events';
import { connect } from 'node:net';
import { throwIfAborted, withDeadline } from '../../async/deadline.js';
import { isShoalError, messageOf, ShoalError } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import type { ConfigProto } from '../../proto/generated/config_pb.js';
import type { Fetch, Fetches, FetchResult } from '../../session/fetches.js';
import { type RunOptions, Session } from '../../session/session.js';
import type { Member } from '../membership/types.js';
import { parseAddress } from '../spec/address.js';
import { parseTaskId } from '../spec/task-id.js';
import type { Server } from './server.js';

export interface ClusterSessionOptions {
  readonly config?: ConfigProto;
  /** How long to wait for the ps to be there before a run fails. */
  readonly waitMs?: number;
  /** How long one attempt to open a session may take. */
  readonly openMs?: number;
  readonly onProgress?: (line: string) => void;
  /** Whether the process keeps running while the session is open. Default: true. */
  readonly keepsProcess?: boolean;
  /** What is done in a session of a past epoch before it is closed, and before the next is opened. */
  readonly beforeClose?: ((session: Session) => Promise<void>) | undefined;
}

interface Generation {
  readonly epoch: number;
  readonly session: Session;
  readonly ps: readonly Member[];
  /** Fires when a member of this session is lost or replaced. */
  readonly over: AbortController;
  /** Signals of callers, each joined with `over`: made once, since a join is never let go of by its sources. */
  readonly joined: WeakMap<AbortSignal, AbortSignal>;
  /** A run could not reach a ps: each is asked before TensorFlow is given anything else. */
  doubtful: boolean;
}

const PROBE_MS = 2000;
const LEAVE_MS = 10_000;
const CLOSE_MS = 5_000;

export class ClusterSession {
  readonly graph: Graph;
  readonly #server: Server;
  readonly #options: ClusterSessionOptions;
  readonly #unsubscribe: () => void;
  readonly #over = new AbortController();
  readonly #release: () => void;
  #generation: Generation | undefined;
  #opening: Promise<Generation> | undefined;
  #retiring: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(server: Server, graph: Graph, options: ClusterSessionOptions) {
    this.#server = server;
    this.graph = graph;
    this.#options = options;
    this.#release = options.keepsProcess === false ? () => {} : server.keepProcess();
    this.#unsubscribe = server.task.events.on('*', (event) => {
      const isPs = 'member' in event && parseTaskId(event.member.task).job === 'ps';
      if (event.type === 'epoch' || (isPs && (event.type === 'lost' || event.type === 'left'))) {
        const whom = 'member' in event ? event.member.task : 'a ps';
        this.#retire(`${whom} ${event.type === 'epoch' ? 'was replaced' : 'was lost'}`);
      }
    });
  }

  /** Runs on the session of the current epoch. A loss of a ps fails it with UNAVAILABLE; the next run may work. */
  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    return this.#run(fetches as Fetch, options) as Promise<FetchResult<F>>;
  }

  async #run(fetches: Fetch, options: RunOptions): Promise<unknown> {
    const generation = await this.current(options.signal);
    const { session, over } = generation;
    const signal = options.signal ? joinSignals(generation, options.signal) : over.signal;
    try {
      return await session.run(fetches, { ...options, signal });
    } catch (error) {
      if (over.signal.aborted && !options.signal?.aborted) {
        throw new ShoalError('SHOAL_TF_UNAVAILABLE', `A run was given up: ${over.signal.reason}`, {
          cause: error,
        });
      }
      if (isShoalError(error, 'SHOAL_TF_UNAVAILABLE')) generation.doubtful = true;
      throw error;
    }
  }

  /** Whose cluster it is over. */
  get server(): Server {
    return this.#server;
  }

  /** TensorFlow's session of the moment; none is opened. */
  now(): Session | undefined {
    return this.#generation?.session;
  }

  /** The session of this epoch, opened if need be when all ps are there. */
  async current(signal?: AbortSignal): Promise<Generation> {
    if (this.#closed) throw new ShoalError('SHOAL_DISPOSED', 'This session was closed');
    throwIfAborted('Opening a session', signal);
    const generation = this.#generation;
    if (generation && generation.epoch === this.#server.task.epoch) {
      if (generation.doubtful) await this.#reassure(generation);
      return generation;
    }
    // Others may wait for it too: who gives up does so alone.
    this.#opening ??= this.#open(this.#over.signal).finally(() => {
      this.#opening = undefined;
    });
    return withDeadline(this.#opening, 'Opening a session', { signal });
  }

  /**
   * A ps may be dead before the membership knows. The first run of a set of fetches would then fail in a way
   * that TensorFlow counts as a run under way for ever, and the session could never be closed.
   */
  async #reassure(generation: Generation): Promise<void> {
    await Promise.all(generation.ps.map((member) => probe(member)));
    generation.doubtful = false;
  }

  async #open(signal: AbortSignal): Promise<Generation> {
    this.#retire('the cluster has changed');
    await this.#retiring;
    const { task } = this.#server;
    const { waitMs = 120_000, openMs = 15_000, onProgress, config } = this.#options;
    await this.#server.waitForPs({ timeoutMs: waitMs, signal, onProgress });
    const epoch = task.epoch;
    const members = this.#server.psTasks.map((id) => task.member(id) as Member);
    const over = new AbortController();
    // Every run listens, and an input alone may have a dozen under way.
    setMaxListeners(0, over.signal);
    const session = await Session.create({
      graph: this.graph,
      target: this.#server.target,
      config: this.#configNow(config),
      timeoutMs: openMs,
      signal,
    });
    this.#generation = { epoch, session, over, ps: members, joined: new WeakMap(), doubtful: false };
    return this.#generation;
  }

  /** A ps may be lost while the others are asked: that is passing, as everywhere in this class. */
  #configNow(base: ConfigProto | undefined): ConfigProto {
    try {
      return this.#server.sessionConfig(base);
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_UNREACHABLE')) throw error;
      throw new ShoalError('SHOAL_TF_UNAVAILABLE', error.message, { cause: error });
    }
  }

  /** Ends the session of a past epoch. Its close may take seconds, and nobody waits for it. */
  #retire(why: string): void {
    const past = this.#generation;
    if (!past) return;
    this.#generation = undefined;
    past.over.abort(why);
    this.#retiring = this.#leave(past.session);
    void this.#retiring
      .then(() => past.session.close({ timeoutMs: 30_000 }))
      .catch(() => {
        // The peers of a past epoch may be gone: there is nothing left to close.
      });
  }

  async #leave(session: Session): Promise<void> {
    const { beforeClose } = this.#options;
    if (!beforeClose) return;
    await withDeadline(beforeClose(session), 'The end of the input', { timeoutMs: LEAVE_MS }).catch(() => {
      // What could not be ended there goes down with the session.
    });
  }

  /**
   * Cancels what runs and lets go of the session. That it takes long, or fails because a ps is gone, is told and is no error:
   * what was to be done in it is done, and nothing of it outlives the process.
   */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#over.abort('the session was closed');
    this.#unsubscribe();
    const last = this.#generation;
    this.#generation = undefined;
    try {
      if (!last) return;
      await this.#leave(last.session);
      await last.session.close({ timeoutMs: CLOSE_MS });
    } catch (error) {
      if (!isShoalError(error)) throw error;
      this.#options.onProgress?.(`the session is left to itself: ${messageOf(error)}`);
    } finally {
      this.#release();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function joinSignals({ joined, over }: Generation, signal: AbortSignal): AbortSignal {
  const known = joined.get(signal);
  if (known) return known;
  const made = AbortSignal.any([signal, over.signal]);
  setMaxListeners(0, made);
  joined.set(signal, made);
  return made;
}

/** Whether somebody listens at the TensorFlow address of a member. A frozen process is found by its silence. */
export function probe(member: Member): Promise<void> {
  const { task, serverAddress } = member;
  if (serverAddress === null) {
    throw new ShoalError('SHOAL_TF_UNAVAILABLE', `${task} has no TensorFlow server`, { task });
  }
  const { host, port } = parseAddress(serverAddress);
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: PROBE_MS });
    const fail = (why: string) => {
      socket.destroy();
      reject(
        new ShoalError('SHOAL_TF_UNAVAILABLE', `${task} does not answer at ${serverAddress}: ${why}`, {
          task,
        }),
      );
    };
    socket.once('connect', () => {
      socket.destroy();
      resolve();
    });
    socket.once('timeout', () => fail(`silent for ${PROBE_MS} ms`));
    socket.once('error', (error) => fail(error.message));
  });
}
