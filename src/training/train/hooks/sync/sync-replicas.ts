/**
 * Synchronous training in a monitored session. Every worker starts at the step of the others. The chief applies the
 * gradients of the workers in the background. While a worker is absent, the others compute its gradients.
 */

import { randomInt } from 'node:crypto';
import { sleep, withDeadline } from '../../../../base/async/deadline.js';
import { joinSignals } from '../../../../base/async/joined-signal.js';
import { describeError, ShoalError } from '../../../../base/errors/errors.js';
import type { Log } from '../../../../base/text/log.js';
import type { TaskId } from '../../../../distributed/cluster/spec/task-id.js';
import type { SyncReplicasOptimizer } from '../../../../tensorflow/optimizers/sync/sync-replicas.js';
import type { Feeds } from '../../../../tensorflow/session/feeds.js';
import type { Fetches, FetchResult } from '../../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../../tensorflow/session/runner.js';
import { Tensor } from '../../../../tensorflow/tensor/tensor.js';
import type { Coordinator } from '../../recovery/coordinator.js';
import { readGlobalStep } from '../../recovery/read-global-step.js';
import { isRecoverable } from '../../recovery/recoverable-session.js';
import type { SyncStallEffect } from '../../recovery/sync-stall.js';
import type { TrainingRunner } from '../../task/training-runner.js';
import { type HookSetup, SessionRunHook } from '../session-run-hook.js';
import { startSync } from './start-sync.js';
import { SyncWatch } from './sync-watch.js';
import { TokenShares } from './token-shares.js';

/** For a snapshot, steps pause this far ahead of the current one: the next one may be made while it is read. */
const PAUSE_AHEAD_STEPS = 2;
/** The limit of runs that do not wait for workers. */
const RUN_MS = 30_000;
const RETRY_MS = 200;
/** How often to look whether the chief has prepared the steps after a recovery. */
const START_LOOK_MS = 20;
/** How often to look at a step that takes long. */
const LOOK_MS = 3000;
const STALL_MS = 60_000;
const STALL_STEPS = 4;
/** How long the last step may take, once it has its gradients. */
const SHORTEST_APPLY_MS = 200;
const LONGEST_APPLY_MS = 10_000;

export interface SyncReplicasHookOptions {
  readonly isChief: boolean;
  /** Receives log lines; default: the log of the monitored session. */
  readonly log?: Log;
  /** Cancels the start, also that after a recovery; default: none. @internal */
  readonly signal?: AbortSignal;
  /** After how long a step lacks a worker, if that is several times longer than the last one; default: 60 s. @internal */
  readonly stallMs?: number;
}

export class SyncReplicasHook extends SessionRunHook {
  readonly #optimizer: SyncReplicasOptimizer;
  readonly #isChief: boolean;
  #signal: AbortSignal | undefined;
  readonly #stallMs: number;
  #log: Log;
  #leading: Promise<void> | undefined;
  /** The synchronous steps that this chief has made, and the duration of the last one. */
  #steps = 0;
  #lastMs = 0;
  #isStopping = false;
  /** The number of the last attempt to make a step. */
  #attempts = firstAttempt();
  /** What the current step waits for, as of the last look. */
  #waitsFor: string | undefined;
  /** How many recoveries had begun at the last start. */
  #startedAfter: number | undefined;
  #tokens: TokenShares | undefined;
  #isClosed = false;
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

  override begin({ log, signal }: HookSetup): void {
    this.#log = log;
    this.#signal ??= signal;
  }

  override async afterCreateSession(session: TrainingRunner, coordinator: Coordinator): Promise<void> {
    const { localStepInitOp } = this.#optimizer;
    const { server } = session;
    const pauses = server?.checkpoints.pauses;
    pauses?.pauseAt(
      async () => ((await readGlobalStep(session, { timeoutMs: RUN_MS })) ?? 0) + PAUSE_AHEAD_STEPS,
    );
    const signal = this.#signal ? AbortSignal.any([coordinator.signal, this.#signal]) : coordinator.signal;
    const suspensions = session.recoveryGuard?.suspensions;
    await session.run(localStepInitOp, { timeoutMs: RUN_MS, signal });
    if (!this.#isChief) return;
    this.#tokens ??= this.#watchWorkers(session, coordinator);
    const tokens = this.#tokens;
    const isStarted = await startSync(session, this.#optimizer, {
      tokens: (isFirst) => tokens.start(isFirst),
      signal,
      log: this.#log,
    });
    this.#startedAfter = suspensions;
    if (this.#leading || !isStarted) return;
    this.#leading = this.#lead(session, tokens, AbortSignal.any([coordinator.signal, this.#over.signal]));
    coordinator.register(this.#leading, 'synchronous steps');
    pauses?.stopStepsBy(() => this.#stopLeading());
  }

  /**
   * A step that is being applied is completed: an aborted one would be applied on some ps only. One that takes longer than
   * usual waits for gradients, and nothing of it is applied.
   */
  async #stopLeading(): Promise<void> {
    this.#isStopping = true;
    const usualMs = this.#steps === 0 ? LONGEST_APPLY_MS : 2 * this.#lastMs;
    const timeoutMs = Math.min(LONGEST_APPLY_MS, Math.max(SHORTEST_APPLY_MS, usualMs));
    const ended = Promise.resolve(this.#leading);
    await withDeadline(ended, 'The last synchronous step', { timeoutMs }).catch(() => {
      // It waits for gradients, or has failed: then the coordinator has the error.
    });
    this.#over.abort('training is over');
    await ended.catch(() => {});
  }

  /** Hands out the tokens of workers that make no more steps, and one more to a worker that comes back. */
  #watchWorkers(session: TrainingRunner, { signal }: Coordinator): TokenShares {
    const { server } = session;
    if (!server) return new TokenShares(this.#optimizer, undefined);
    const { task, finished, checkpoints } = server;
    const { lastSteps } = checkpoints;
    const tokens = new TokenShares(this.#optimizer, { task, finished, isWaiting: () => lastSteps.isWaiting });
    const handOut = (id: TaskId, countsFor: (worker: number) => Int32Array) => {
      const worker = this.#optimizer.workers.indexOf(id);
      const counts = worker < 0 ? undefined : countsFor(worker);
      if (!counts?.some((count) => count > 0) || this.#over.signal.aborted) return;
      this.#persist(session, this.#optimizer.handOutOp, { feeds: tokens.feeds(counts), signal }).catch(
        (error: unknown) => {
          if (!signal.aborted)
            this.#log(`the tokens of ${id} could not be handed out: ${describeError(error)}`);
        },
      );
    };
    const isAway = (id: TaskId) => handOut(id, (worker) => tokens.insteadOf((i) => i === worker));
    const stopEvents = task.events.on('*', (event) => {
      if (event.type === 'lost' || event.type === 'left') isAway(event.member.task);
      // A run of the predecessor of a worker that is back may still wait on the ps, and take the first token.
      else if (event.type === 'back')
        handOut(event.member.task, (worker) => tokens.oneFor((i) => i === worker));
    });
    const stopReports = finished.onFinished(isAway);
    const stopLeading = lastSteps.lead({ onWaiting: () => isAway(task.task), steps: () => this.#steps });
    this.#unsubscribe = () => {
      for (const stop of [stopEvents, stopReports, stopLeading]) stop();
    };
    return tokens;
  }

  /**
   * Ends the steps of all workers: one that has more input gets OUT_OF_RANGE, like one whose input has ended. A chief that
   * was interrupted comes back and issues tokens again.
   */
  override async end(session: TrainingRunner): Promise<void> {
    this.#unsubscribe();
    if (!this.#leading || this.#signal?.aborted) return;
    await this.#stopLeading();
    if (this.#isClosed) return;
    // The last step may have been made without tokens for all workers.
    await this.release(session);
    await session.run(this.#optimizer.closeOp, { timeoutMs: RUN_MS });
  }

  /** Gives each worker a token, if this chief leads: it fails, and others may wait for one. @internal */
  async release(session: TrainingRunner): Promise<void> {
    if (this.#leading && !this.#signal?.aborted)
      await session.run(this.#optimizer.releaseOp, { timeoutMs: RUN_MS });
  }

  async #lead(session: TrainingRunner, tokens: TokenShares, signal: AbortSignal): Promise<void> {
    const { handOutOp, restartOp } = this.#optimizer;
    const watch = this.#watch(session, tokens);
    while (!signal.aborted && !this.#isStopping) {
      const counts = tokens.now();
      const started = performance.now();
      const stalled = new AbortController();
      const number = ++this.#attempts;
      const onLook = this.#judge(session, tokens, stalled, signal);
      const stopRescue = this.#rescue(session, tokens, signal);
      const stopWatch = watch.begin({ number, signal, onLook });
      const made = await this.#attempt(session, {
        feeds: [...tokens.feeds(counts), [this.#optimizer.attempt, Tensor.of(number)]],
        stalled: stalled.signal,
        signal,
      }).finally(() => {
        stopRescue();
        stopWatch();
      });
      if (signal.aborted) return;
      if (!made) {
        // A recovery has done so already.
        if (!session.recover)
          await this.#persist(session, restartOp, { feeds: tokens.start(false), signal, timeoutMs: RUN_MS });
        continue;
      }
      this.#steps += 1;
      this.#lastMs = performance.now() - started;
      tokens.awaitsNew = false;
      tokens.handedOut = counts;
      tokens.left = [...(made.tokensLeft.data as Int32Array)];
      // Workers that came or went during the run.
      const gone = tokens.insteadOf((i) => tokens.isAway(i));
      const come = tokens.oneFor((i) => counts[i] === 0 && !tokens.isAbsent(i));
      const more = gone.map((count, i) => count + (come[i] as number));
      if (more.some((count) => count > 0))
        await this.#persist(session, handOutOp, { feeds: tokens.feeds(more), signal });
    }
  }

  /**
   * Tries to make one step; undefined if it has failed. A run that failed may have taken gradients, or applied them on some
   * ps, so it is not repeated: the cluster recovers first.
   */
  async #attempt(session: TrainingRunner, { feeds, stalled, signal }: AttemptOptions) {
    const { syncOp, tokensLeft } = this.#optimizer;
    const run = (until: AbortSignal) => session.run({ syncOp, tokensLeft }, { feeds, signal: until });
    if (!(await this.#isStarted(session, signal))) return undefined;
    try {
      using until = joinSignals(signal, stalled);
      // A run that waits for gradients during a loss would otherwise take those of the recovered cluster.
      return await (session.recoveryGuard?.during('A synchronous step', run, until.signal) ??
        run(until.signal));
    } catch (error) {
      if (signal.aborted || session.recoveryGuard?.isStable === false) return undefined;
      const why = stalled.aborted ? (stalled.reason as ShoalError) : error;
      if (!isRecoverable(why)) throw why;
      try {
        // A run that still waits would take the gradients of the next step.
        if (stalled.aborted) await session.endRuns?.('a synchronous step made no progress');
        await session.recover?.(why);
      } catch (failure) {
        if (!signal.aborted && !this.#signal?.aborted) throw failure;
      }
      await sleep(RETRY_MS, signal).catch(() => {
        // The loop checks the signal.
      });
      return undefined;
    }
  }

  #watch(session: TrainingRunner, tokens: TokenShares): SyncWatch {
    const isAway = (worker: number) => (tokens.isAway(worker) ? 'away' : 'present');
    const statusOf = (worker: number) => (tokens.isOver(worker) ? 'over' : isAway(worker));
    const lookMs = Math.min(LOOK_MS, this.#stallMs / 4);
    return new SyncWatch({ runner: session, optimizer: this.#optimizer, statusOf, lookMs });
  }

  /** Ends a step that cannot be made: `stalled` aborts with the reason. */
  #judge(
    session: TrainingRunner,
    tokens: TokenShares,
    stalled: AbortController,
    signal: AbortSignal,
  ): (effect: SyncStallEffect) => void {
    return ({ type, what }) => {
      this.#waitsFor = type === 'wait' ? what : undefined;
      if (type === 'end') this.#endWithout(session, tokens, signal);
      if (type !== 'recover') return;
      this.#log(what);
      if (session.recover) stalled.abort(new ShoalError('SHOAL_TF_ABORTED', what));
    };
  }

  /**
   * A worker that is alive may not train yet, or no longer: when a step takes very long, workers that wait compute
   * another gradient for it. From the next step on they also compute those of workers that took no token. A
   * deterministic step needs every worker.
   */
  #rescue(session: TrainingRunner, tokens: TokenShares, signal: AbortSignal): () => void {
    const ms = Math.max(this.#stallMs, STALL_STEPS * this.#lastMs);
    const begun = performance.now();
    let hasHelped = false;
    const timer = setInterval(() => {
      const what = `a synchronous step has taken ${Math.round((performance.now() - begun) / 1000)} s`;
      const waits = `${what}: it waits ${this.#waitsFor ?? 'for a worker'}`;
      if (hasHelped || this.#optimizer.isDeterministic) return this.#log(waits);
      hasHelped = true;
      this.#log(`${waits}; workers that wait compute another gradient`);
      const feeds = tokens.feeds(tokens.oneFor(() => true));
      this.#persist(session, this.#optimizer.topUpOp, { feeds, signal }).catch((error: unknown) => {
        if (!signal.aborted) this.#log(`no tokens could be handed out: ${describeError(error)}`);
      });
    }, ms).unref();
    return () => clearInterval(timer);
  }

  /** The input of a worker that a deterministic step needs has ended: training has. */
  #endWithout(session: TrainingRunner, tokens: TokenShares, signal: AbortSignal): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const over = this.#optimizer.workers.filter((_, i) => tokens.isOver(i)).join(', ');
    this.#log(`training ends without ${over}: a deterministic step needs every worker`);
    this.#persist(session, this.#optimizer.closeOp, { signal }).catch((error: unknown) => {
      if (!signal.aborted) this.#log(`training could not be ended: ${describeError(error)}`);
    });
  }

  /** Resolves to true when the chief has prepared the steps after the last recovery, to false when the signal aborts. */
  async #isStarted(session: TrainingRunner, signal: AbortSignal): Promise<boolean> {
    // After a recovery the accumulators are cleared first: a step would take the gradients that clear them.
    while (!signal.aborted && session.recoveryGuard?.suspensions !== this.#startedAfter)
      await sleep(START_LOOK_MS, signal).catch(() => {});
    return !signal.aborted;
  }

  /** Runs fetches once, and again after each loss that interrupted them. Undefined if the signal has ended it. */
  async #persist<const F extends Fetches>(
    session: TrainingRunner,
    fetches: F,
    { signal, ...options }: RunOptions & { readonly signal: AbortSignal },
  ): Promise<FetchResult<F> | undefined> {
    const run = (signal: AbortSignal) => session.run(fetches, { ...options, signal });
    while (await this.#isStarted(session, signal)) {
      try {
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
    return undefined;
  }
}

interface AttemptOptions {
  readonly feeds: Feeds;
  /** Aborts the attempt, with an error that explains why. */
  readonly stalled: AbortSignal;
  readonly signal: AbortSignal;
}

/** Attempts of different chiefs have different numbers. */
const firstAttempt = (): bigint => BigInt(randomInt(2 ** 40)) << 20n;
