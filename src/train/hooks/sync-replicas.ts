/**
 * Synchronous training in a monitored session. Every worker starts at the step of the others. The chief applies the
 * gradients of the workers in the background. While a worker is absent, the others compute its gradients.
 */
import { sleep } from '../../async/deadline.js';
import { isPresent } from '../../cluster/membership/types.js';
import type { ClusterServer } from '../../cluster/runtime/cluster-server.js';
import type { TaskId } from '../../cluster/spec/task-id.js';
import { describeError } from '../../errors/errors.js';
import type { Operation } from '../../graph/operation.js';
import type { SyncReplicasOptimizer } from '../../optimizers/sync-replicas.js';
import type { Feeds } from '../../session/feeds.js';
import { Tensor } from '../../tensor/tensor.js';
import type { Coordinator } from '../recovery/coordinator.js';
import { isRecoverable } from '../recovery/recoverable-session.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { type HookSetup, SessionRunHook } from './session-run-hook.js';
import { startSync } from './start-sync.js';

/** For a snapshot, steps pause this far ahead of the step that the chief has seen. */
const PAUSE_AHEAD_STEPS = 2;
/** The limit of runs that do not wait for workers. */
const RUN_MS = 30_000;
const RETRY_MS = 200;

export interface SyncReplicasHookOptions {
  readonly isChief: boolean;
  /** Receives log lines; default: the log of the monitored session. */
  readonly log?: (line: string) => void;
  /** Cancels the start, also that after a recovery; default: none. @internal */
  readonly signal?: AbortSignal;
}

export class SyncReplicasHook extends SessionRunHook {
  readonly #optimizer: SyncReplicasOptimizer;
  readonly #isChief: boolean;
  readonly #signal: AbortSignal | undefined;
  #log: (line: string) => void;
  #isLeading = false;
  /** The tokens of each worker for the current step. */
  #handedOut: Int32Array = new Int32Array();
  #unsubscribe = () => {};
  readonly #over = new AbortController();

  constructor(
    optimizer: SyncReplicasOptimizer,
    { isChief, log = () => {}, signal }: SyncReplicasHookOptions,
  ) {
    super();
    this.#signal = signal;
    this.#log = log;
    this.#optimizer = optimizer;
    this.#isChief = isChief;
  }

  override begin({ log }: HookSetup): void {
    this.#log = log;
  }

  override async afterCreateSession(session: TrainingRunner, coordinator: Coordinator): Promise<void> {
    const { localStepInitOp } = this.#optimizer;
    const { server } = session;
    const service = server?.checkpoints;
    service?.pauseAhead(PAUSE_AHEAD_STEPS);
    const signal = this.#signal ? AbortSignal.any([coordinator.signal, this.#signal]) : coordinator.signal;
    await session.run(localStepInitOp, { timeoutMs: RUN_MS, signal });
    if (!this.#isChief) return;
    const tokens = new TokenShares(this.#optimizer, server);
    this.#handedOut = tokens.now();
    await startSync(session, this.#optimizer, {
      feeds: tokens.feeds(this.#handedOut),
      firstFeeds: tokens.feeds(tokens.first()),
      signal,
      log: this.#log,
    });
    if (this.#isLeading) return;
    this.#isLeading = true;
    const leading = this.#lead(session, tokens, AbortSignal.any([coordinator.signal, this.#over.signal]));
    coordinator.register(leading, 'synchronous steps');
    service?.stopStepsBy(() => {
      this.#over.abort('training is over');
      return leading;
    });
    if (server) {
      this.#unsubscribe = server.task.events.on('*', (event) => {
        const isAway = event.type === 'lost' || event.type === 'left';
        if (!isAway && event.type !== 'back') return;
        const worker = this.#optimizer.workers.indexOf(event.member.task);
        if (worker < 0) return;
        const counts = isAway
          ? tokens.instead(this.#handedOut, (i) => i === worker)
          : // A run of its predecessor may still wait on the ps and take the first token.
            this.#handedOut.map((_, i) => (i === worker ? 1 : 0));
        this.#handOut(session, tokens.feeds(counts), coordinator);
      });
    }
  }

  override async end(session: TrainingRunner): Promise<void> {
    this.#unsubscribe();
    // No worker may wait for a token after training. A chief that was interrupted comes back and issues tokens again.
    if (this.#isLeading && !this.#signal?.aborted)
      await session.run(this.#optimizer.releaseOp, { timeoutMs: RUN_MS });
  }

  async #lead(session: TrainingRunner, tokens: TokenShares, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const counts = tokens.now();
      await this.#persist(session, this.#optimizer.syncOp, tokens.feeds(counts), signal);
      this.#handedOut = counts;
      // The tokens of workers that were lost during the run.
      const instead = tokens.instead(counts, (i) => tokens.isAbsent(i));
      if (instead.some((count) => count > 0))
        await this.#persist(session, this.#optimizer.handOutOp, tokens.feeds(instead), signal);
    }
  }

  /** Runs an op once, and again after each loss that interrupted it. */
  async #persist(session: TrainingRunner, op: Operation, feeds: Feeds, signal: AbortSignal): Promise<void> {
    const run = (signal: AbortSignal) => session.run(op, { feeds, signal });
    while (!signal.aborted) {
      try {
        // A run that waits for gradients during a loss would otherwise take those of the recovered cluster.
        await (session.recoveryGuard?.during('A synchronous step', run, signal) ?? run(signal));
        return;
      } catch (error) {
        if (signal.aborted) return;
        const isCancelled = session.recoveryGuard?.isStable === false;
        if (!isCancelled && !isRecoverable(error)) throw error;
        await sleep(RETRY_MS, signal).catch(() => {
          // The loop checks the signal.
        });
      }
    }
  }

  #handOut(session: TrainingRunner, feeds: Feeds, { signal }: Coordinator): void {
    this.#persist(session, this.#optimizer.handOutOp, feeds, signal).catch((error: unknown) => {
      if (!signal.aborted)
        this.#log(`the tokens of a lost worker could not be handed out: ${describeError(error)}`);
    });
  }
}

/** Which worker gets how many tokens, by the workers that are present. */
class TokenShares {
  readonly #optimizer: SyncReplicasOptimizer;
  readonly #server: Pick<ClusterServer, 'task' | 'finished'> | undefined;

  constructor(
    optimizer: SyncReplicasOptimizer,
    server: Pick<ClusterServer, 'task' | 'finished'> | undefined,
  ) {
    this.#optimizer = optimizer;
    this.#server = server;
  }

  /** A worker that has finished makes no more steps, even if steps are repeated after a loss. */
  isAbsent(worker: number): boolean {
    const id = this.#optimizer.workers[worker] as TaskId;
    if (this.#server === undefined || id === this.#server.task.task) return false;
    const member = this.#server.task.member(id);
    return !member || !isPresent(member.status) || this.#server.finished.has(member);
  }

  /** The tokens of a step. */
  now(): Int32Array {
    return this.#optimizer.tokensFor(this.#optimizer.workers.map((_, i) => !this.isAbsent(i)));
  }

  /** The tokens of the very first step, which waits for workers that have not started yet. */
  first(): Int32Array {
    const { workers } = this.#optimizer;
    const hasStarted = (worker: number) => this.#server?.task.member(workers[worker] as TaskId) !== undefined;
    return this.#optimizer.tokensFor(workers.map((_, i) => !(hasStarted(i) && this.isAbsent(i))));
  }

  /** The tokens that present workers get in place of absent ones that had some of `counts`. */
  instead(counts: Int32Array, isAway: (worker: number) => boolean): Int32Array {
    const missing = counts.reduce((sum, count, i) => (isAway(i) ? sum + count : sum), 0);
    const present = [...counts.keys()].filter((i) => !isAway(i) && !this.isAbsent(i));
    const instead = new Int32Array(counts.length);
    for (let n = 0; n < missing; n++) instead[present[n % present.length] as number]! += 1;
    return instead;
  }

  feeds(counts: Int32Array): Feeds {
    return [[this.#optimizer.tokenCounts, Tensor.of(counts)]];
  }
}
