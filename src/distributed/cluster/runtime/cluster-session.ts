/**
 * A session that survives the replacement of ps. It holds one session of the engine per epoch of the cluster; after a ps
 * is replaced the next run opens another, and no process restarts. No wait is unbounded: every ps is probed before a
 * session is opened, since TensorFlow waits forever for one that is dead or frozen, and runs in flight are aborted when
 * one of their ps is lost.
 */
import { setMaxListeners } from 'node:events';
import { throwIfAborted, withDeadline } from '../../../base/async/deadline.js';
import { type JoinedSignal, joinSignals } from '../../../base/async/joined-signal.js';
import { describeError, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { ConfigProto } from '../../../base/proto/generated/config_pb.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Fetch, Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import type { Runner, RunOptions } from '../../../tensorflow/session/runner.js';
import type { Engine, EngineSession, EngineSessionOptions } from '../engines/engine.js';
import type { Member } from '../membership/types.js';
import { parseTaskId, type TaskId } from '../spec/task-id.js';
import type { ClusterTask } from '../task/cluster-task.js';
import type { WaitForOptions } from '../task/wait-for.js';

export interface ClusterSessionOptions {
  /** The configuration of TensorFlow's sessions, completed with the cluster's; default: TensorFlow's. */
  readonly config?: ConfigProto;
  /** How long a run waits for the ps to be alive; default: 2 minutes. */
  readonly waitMs?: number;
  /** How long one attempt to open a session may take; default: 15 s. */
  readonly openMs?: number;
  /** Receives progress messages; default: none. */
  readonly onProgress?: (line: string) => void;
  /** Whether an open session keeps the process running; default: true. */
  readonly keepsProcess?: boolean;
  /** Called with the session of a past epoch before it is closed and the next one is opened. Default: none. */
  readonly beforeClose?: (session: Runner) => Promise<void>;
}

/** What a session needs of the server of its task. */
interface SessionServer {
  readonly task: ClusterTask;
  readonly engine: Engine;
  /** The ps of the cluster specification, in order. */
  readonly psTasks: readonly TaskId[];
  /** The ps that are known to be lost or to have left. */
  lostPs(): readonly TaskId[];
  waitForPs(options: Partial<WaitForOptions>): Promise<void>;
  /** Keeps the process running until the returned function is called. */
  keepProcess(): () => void;
}

interface Generation {
  readonly epoch: number;
  readonly session: EngineSession;
  readonly ps: readonly Member[];
  /** Fires when a member of this session is lost or replaced. */
  readonly over: AbortController;
  /** Callers' signals, each combined with `over`: created once, since the sources never release a combined signal. */
  readonly joined: WeakMap<AbortSignal, AbortSignal>;
  /** Callers' signals of earlier runs: one that comes only once is joined for its run. */
  readonly seen: WeakSet<AbortSignal>;
  /** A run could not reach a ps: all ps are probed before the next run. */
  doubtful: boolean;
}

const LEAVE_MS = 10_000;
const CLOSE_MS = 5_000;
const PAST_CLOSE_MS = 30_000;

export class ClusterSession {
  readonly graph: Graph;
  readonly #server: SessionServer;
  readonly #options: ClusterSessionOptions;
  readonly #unsubscribe: () => void;
  readonly #over = new AbortController();
  readonly #release: () => void;
  #generation: Generation | undefined;
  #last: EngineSession | undefined;
  #opening: Promise<Generation> | undefined;
  #retiring: Promise<void> = Promise.resolve();
  /** Settles when the session of the last past epoch is closed. */
  #closing: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(server: SessionServer, graph: Graph, options: ClusterSessionOptions) {
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

  /** Runs in the session of the current epoch. Losing a ps fails the run with UNAVAILABLE; a retry may succeed. */
  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    return this.#run(fetches as Fetch, options) as Promise<FetchResult<F>>;
  }

  async #run(fetches: Fetch, options: RunOptions): Promise<unknown> {
    const generation = await this.current(options.signal);
    const { session, over } = generation;
    using joined = signalOf(generation, options.signal);
    const { signal } = joined;
    const confirmed = this.#server.engine.confirmCurrent();
    if (confirmed) await confirmed;
    try {
      return await session.run(fetches, { ...options, signal });
    } catch (error) {
      if (over.signal.aborted && !options.signal?.aborted) {
        throw new ShoalError('SHOAL_TF_UNAVAILABLE', `Run aborted: ${over.signal.reason}`, {
          cause: error,
        });
      }
      if (isShoalError(error, 'SHOAL_TF_UNAVAILABLE')) generation.doubtful = true;
      throw error;
    }
  }

  /**
   * The engine's current session; does not open one. While a ps is lost it is the last one, if the engine can still run
   * ops of this task in it.
   */
  now(): Runner | undefined {
    return this.#generation?.session ?? this.#last;
  }

  /** The session of this epoch. If needed, waits for all ps and opens it. @internal */
  async current(signal?: AbortSignal): Promise<Generation> {
    if (this.#closed) throw new ShoalError('SHOAL_DISPOSED', 'This session was closed');
    throwIfAborted('Opening a session', signal);
    const generation = this.#generation;
    if (generation && generation.epoch === this.#server.task.epoch) {
      if (generation.doubtful) await this.#probeAll(generation);
      return generation;
    }
    // Other callers may wait for the same session: the caller's signal ends only its own wait.
    this.#opening ??= this.#open(this.#over.signal).finally(() => {
      this.#opening = undefined;
    });
    return withDeadline(this.#opening, 'Opening a session', { signal });
  }

  /**
   * A ps may be dead before membership notices. The first run of a set of fetches would then fail in a way that
   * TensorFlow counts as a run in progress forever, and the session could never be closed.
   */
  async #probeAll(generation: Generation): Promise<void> {
    await Promise.all(generation.ps.map((member) => this.#server.engine.probe(member)));
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
    // Every run adds a listener, and an input pipeline alone may have a dozen runs in flight.
    setMaxListeners(0, over.signal);
    const session = await this.#openNow(members, { config, timeoutMs: openMs, signal });
    // Its loss has ended no session, because there was none.
    const lost = this.#server.lostPs();
    if (lost.length > 0) throw new ShoalError('SHOAL_TF_UNAVAILABLE', `${lost.join(', ')} was lost again`);
    this.#generation = {
      epoch,
      session,
      over,
      ps: members,
      joined: new WeakMap(),
      seen: new WeakSet(),
      doubtful: false,
    };
    return this.#generation;
  }

  /** A ps may be lost while the others are probed: a transient error, as everywhere in this class. */
  async #openNow(ps: readonly Member[], options: EngineSessionOptions): Promise<EngineSession> {
    try {
      return await this.#server.engine.openSession(this.graph, ps, options);
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_UNREACHABLE')) throw error;
      throw new ShoalError('SHOAL_TF_UNAVAILABLE', error.message, { cause: error });
    }
  }

  /** Ends the session of a past epoch. Closing it may take seconds; no caller waits for that. */
  #retire(why: string): void {
    const past = this.#generation;
    if (!past) return;
    this.#generation = undefined;
    past.over.abort(why);
    if (this.#server.engine.keepsObjects) {
      // It holds nothing that has to be closed.
      this.#last = past.session;
      return;
    }
    this.#retiring = this.#leave(past.session);
    this.#closing = this.#retiring
      .then(() => past.session.close({ timeoutMs: PAST_CLOSE_MS }))
      .catch(() => {
        // The ps of a past epoch may be gone.
      });
  }

  /**
   * Ends all runs of the current session, on the ps too, and opens another one for the next run. Aborting a run of
   * TensorFlow's engine ends only the caller's wait for it. @internal
   */
  async renew(why: string): Promise<void> {
    this.#retire(why);
    this.#retiring = this.#closing;
    await this.#closing;
  }

  async #leave(session: Runner): Promise<void> {
    const { beforeClose } = this.#options;
    if (!beforeClose) return;
    await withDeadline(beforeClose(session), 'Preparing to close a session', { timeoutMs: LEAVE_MS }).catch(
      () => {
        // Closing the session ends the rest.
      },
    );
  }

  /**
   * Cancels runs and closes the session. A close that times out, or fails because a ps is gone, is logged and is not an
   * error: the session has no more work, and ends with the process.
   */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#over.abort('the session was closed');
    this.#unsubscribe();
    const last = this.#generation;
    this.#generation = undefined;
    this.#last = undefined;
    try {
      if (!last) return;
      await this.#leave(last.session);
      await last.session.close({ timeoutMs: CLOSE_MS });
    } catch (error) {
      if (!isShoalError(error)) throw error;
      this.#options.onProgress?.(`the session could not be closed: ${describeError(error)}`);
    } finally {
      this.#release();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A signal that ends a run of the generation. Most runs have the same one, which is joined with that of the generation once. */
function signalOf({ joined, seen, over }: Generation, signal: AbortSignal | undefined): JoinedSignal {
  const shared = signal ? joined.get(signal) : over.signal;
  if (shared) return { signal: shared, [Symbol.dispose]: () => {} };
  const own = signal as AbortSignal;
  if (!seen.has(own)) {
    seen.add(own);
    return joinSignals(own, over.signal);
  }
  const made = AbortSignal.any([own, over.signal]);
  setMaxListeners(0, made);
  joined.set(own, made);
  return { signal: made, [Symbol.dispose]: () => {} };
}
