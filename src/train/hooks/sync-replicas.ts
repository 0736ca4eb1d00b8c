/**
 * Synchronous training in a monitored session. Every worker starts at the step of the others. The chief applies the
 * gradients of the workers in the background. While a worker is absent, the others compute its gradients.
 */
import { sleep } from '../../async/deadline.js';
import { isPresent } from '../../cluster/membership/types.js';
import type { ClusterServer } from '../../cluster/runtime/cluster-server.js';
import type { TaskId } from '../../cluster/spec/task-id.js';
import { describeError } from '../../errors/errors.js';
import type { SyncReplicasOptimizer } from '../../optimizers/sync-replicas.js';
import type { Feeds } from '../../session/feeds.js';
import type { Fetches, FetchResult } from '../../session/fetches.js';
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
const STALL_MS = 60_000;
const STALL_STEPS = 4;

export interface SyncReplicasHookOptions {
  readonly isChief: boolean;
  /** Receives log lines; default: the log of the monitored session. */
  readonly log?: (line: string) => void;
  /** Cancels the start, also that after a recovery; default: none. @internal */
  readonly signal?: AbortSignal;
  /** After how long a step lacks a worker, if that is several times longer than the last one; default: 60 s. @internal */
  readonly stallMs?: number;
}

export class SyncReplicasHook extends SessionRunHook {
  readonly #optimizer: SyncReplicasOptimizer;
  readonly #isChief: boolean;
  readonly #signal: AbortSignal | undefined;
  readonly #stallMs: number;
  #log: (line: string) => void;
  #isLeading = false;
  #tokens: TokenShares | undefined;
  #unsubscribe = () => {};
  readonly #over = new AbortController();

  constructor(
    optimizer: SyncReplicasOptimizer,
    { isChief, log = () => {}, signal, stallMs = STALL_MS }: SyncReplicasHookOptions,
  ) {
    super();
    this.#stallMs = stallMs;
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
    this.#tokens ??= this.#watchWorkers(session, coordinator);
    const tokens = this.#tokens;
    await startSync(session, this.#optimizer, {
      tokens: (isFirst) => tokens.start(isFirst),
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
  }

  /** Hands out the tokens of workers that go, and one more to a worker that comes back. */
  #watchWorkers(session: TrainingRunner, { signal }: Coordinator): TokenShares {
    const { server } = session;
    const tokens = new TokenShares(this.#optimizer, server);
    if (!server) return tokens;
    this.#unsubscribe = server.task.events.on('*', (event) => {
      const isAway = event.type === 'lost' || event.type === 'left';
      if (!isAway && event.type !== 'back') return;
      const worker = this.#optimizer.workers.indexOf(event.member.task);
      if (worker < 0) return;
      // A run of the predecessor of a worker that is back may still wait on the ps, and take the first token.
      const counts = isAway ? tokens.insteadOf((i) => i === worker) : tokens.oneFor((i) => i === worker);
      this.#persist(session, this.#optimizer.handOutOp, tokens.feeds(counts), signal).catch(
        (error: unknown) => {
          if (!signal.aborted)
            this.#log(`the tokens of a lost worker could not be handed out: ${describeError(error)}`);
        },
      );
    });
    return tokens;
  }

  override async end(session: TrainingRunner): Promise<void> {
    this.#unsubscribe();
    // No worker may wait for a token after training. A chief that was interrupted comes back and issues tokens again.
    if (this.#isLeading && !this.#signal?.aborted)
      await session.run(this.#optimizer.releaseOp, { timeoutMs: RUN_MS });
  }

  async #lead(session: TrainingRunner, tokens: TokenShares, signal: AbortSignal): Promise<void> {
    const { syncOp, tokensLeft, handOutOp } = this.#optimizer;
    let lastMs = 0;
    while (!signal.aborted) {
      const counts = tokens.now();
      const started = performance.now();
      const rescue = this.#rescue(session, tokens, Math.max(this.#stallMs, STALL_STEPS * lastMs), signal);
      const made = await this.#persist(session, { syncOp, tokensLeft }, tokens.feeds(counts), signal).finally(
        () => clearInterval(rescue),
      );
      if (!made) return;
      lastMs = performance.now() - started;
      tokens.awaitsNew = false;
      tokens.handedOut = counts;
      tokens.left = [...(made.tokensLeft.data as Int32Array)];
      // Workers that came or went during the run.
      const gone = tokens.insteadOf((i) => tokens.isAway(i));
      const come = tokens.oneFor((i) => counts[i] === 0 && !tokens.isAbsent(i));
      const more = gone.map((count, i) => count + (come[i] as number));
      if (more.some((count) => count > 0))
        await this.#persist(session, handOutOp, tokens.feeds(more), signal);
    }
  }

  /**
   * A worker that is alive may not train yet, or no longer: when a step takes very long, workers that wait compute
   * another gradient for it. From the next step on they also compute those of workers that took no token.
   */
  #rescue(session: TrainingRunner, tokens: TokenShares, ms: number, signal: AbortSignal): NodeJS.Timeout {
    return setInterval(() => {
      this.#log(
        `a synchronous step has taken ${Math.round(ms / 1000)} s: workers that wait compute another gradient`,
      );
      const feeds = tokens.feeds(tokens.oneFor(() => true));
      this.#persist(session, this.#optimizer.topUpOp, feeds, signal).catch((error: unknown) => {
        if (!signal.aborted) this.#log(`no tokens could be handed out: ${describeError(error)}`);
      });
    }, ms).unref();
  }

  /** Runs fetches once, and again after each loss that interrupted them. Undefined if the signal has ended it. */
  async #persist<const F extends Fetches>(
    session: TrainingRunner,
    fetches: F,
    feeds: Feeds,
    signal: AbortSignal,
  ): Promise<FetchResult<F> | undefined> {
    const run = (signal: AbortSignal) => session.run(fetches, { feeds, signal });
    while (!signal.aborted) {
      try {
        // A run that waits for gradients during a loss would otherwise take those of the recovered cluster.
        return await (session.recoveryGuard?.during('A synchronous step', run, signal) ?? run(signal));
      } catch (error) {
        if (signal.aborted) return undefined;
        const isCancelled = session.recoveryGuard?.isStable === false;
        if (!isCancelled && !isRecoverable(error)) throw error;
        await sleep(RETRY_MS, signal).catch(() => {
          // The loop checks the signal.
        });
      }
    }
  }
}

/** Which worker gets how many tokens, by the workers that are present. */
class TokenShares {
  /** The tokens of each worker for the current step. */
  handedOut: Int32Array;
  /** The tokens of each worker that it had not taken at the end of the last step. */
  left: readonly number[] = [];
  /** Whether workers that have never been there are awaited. */
  awaitsNew = true;
  readonly #optimizer: SyncReplicasOptimizer;
  readonly #server: Pick<ClusterServer, 'task' | 'finished'> | undefined;

  constructor(
    optimizer: SyncReplicasOptimizer,
    server: Pick<ClusterServer, 'task' | 'finished'> | undefined,
  ) {
    this.#optimizer = optimizer;
    this.#server = server;
    this.handedOut = new Int32Array(optimizer.workers.length);
  }

  /** A worker that has finished makes no more steps, even if steps are repeated after a loss. */
  isAway(worker: number): boolean {
    const id = this.#optimizer.workers[worker] as TaskId;
    if (this.#server === undefined || id === this.#server.task.task) return false;
    const member = this.#server.task.member(id);
    if (!member) return !this.awaitsNew;
    return !isPresent(member.status) || this.#server.finished.has(member);
  }

  /** Whether others compute the gradients of a worker: it is away, or did not take its tokens of the last step. */
  isAbsent(worker: number): boolean {
    return this.isAway(worker) || (this.left[worker] ?? 0) > 0;
  }

  /** The tokens for the start. The very first step waits for workers that have not started yet. */
  start(isFirst: boolean): Feeds {
    this.left = [];
    this.awaitsNew = isFirst;
    this.handedOut = this.now();
    return this.feeds(this.handedOut);
  }

  /** The tokens of a step. */
  now(): Int32Array {
    const training = new Set(this.#training(() => true));
    return this.#optimizer.tokensFor(this.#optimizer.workers.map((_, i) => training.has(i)));
  }

  /** The chosen workers that are not absent; if all of them are, those that are not away. */
  #training(isChosen: (worker: number) => boolean): number[] {
    const there = [...this.#optimizer.workers.keys()].filter((i) => isChosen(i) && !this.isAway(i));
    const training = there.filter((i) => !this.isAbsent(i));
    return training.length > 0 ? training : there;
  }

  /** The tokens that the others get in place of workers that have gone. They count as handed out. */
  insteadOf(isGone: (worker: number) => boolean): Int32Array {
    const { handedOut } = this;
    const missing = handedOut.reduce((sum, count, i) => (isGone(i) ? sum + count : sum), 0);
    const others = this.#training((i) => !isGone(i));
    const instead = new Int32Array(handedOut.length);
    for (let n = 0; n < missing; n++) instead[others[n % others.length] as number]! += 1;
    this.handedOut = handedOut.map((count, i) => (isGone(i) ? 0 : count + (instead[i] as number)));
    return instead;
  }

  /** One token for some workers. */
  oneFor(isMeant: (worker: number) => boolean): Int32Array {
    return this.handedOut.map((_, i) => (isMeant(i) ? 1 : 0));
  }

  feeds(counts: Int32Array): Feeds {
    return [[this.#optimizer.tokenCounts, Tensor.of(counts)]];
  }
}
