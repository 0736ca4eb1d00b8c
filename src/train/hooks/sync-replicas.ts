/**
 * Synchronous training in a monitored session. Every worker starts at the step of the others. The chief applies the
 * gradients of the workers in the background, and issues one more token when a worker is lost.
 */
import { sleep } from '../../async/deadline.js';
import { parseTaskId } from '../../cluster/spec/task-id.js';
import { describeError } from '../../errors/errors.js';
import type { Operation } from '../../graph/operation.js';
import type { SyncReplicasOptimizer } from '../../optimizers/sync-replicas.js';
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
    await startSync(session, this.#optimizer, { signal, log: this.#log });
    if (this.#isLeading) return;
    this.#isLeading = true;
    const leading = this.#lead(session, AbortSignal.any([coordinator.signal, this.#over.signal]));
    coordinator.register(leading, 'synchronous steps');
    service?.stopStepsBy(() => {
      this.#over.abort('training is over');
      return leading;
    });
    if (server) {
      this.#unsubscribe = server.task.events.on('lost', ({ member }) => {
        if (parseTaskId(member.task).job !== 'ps') this.#replaceToken(session, coordinator);
      });
    }
  }

  override async end(session: TrainingRunner): Promise<void> {
    this.#unsubscribe();
    // No worker may wait for a token after training. A chief that was interrupted comes back and issues tokens again.
    if (this.#isLeading && !this.#signal?.aborted)
      await session.run(this.#optimizer.releaseOp, { timeoutMs: RUN_MS });
  }

  async #lead(session: TrainingRunner, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) await this.#persist(session, this.#optimizer.syncOp, signal);
  }

  /** Runs an op once, and again after each loss that interrupted it. */
  async #persist(session: TrainingRunner, op: Operation, signal: AbortSignal): Promise<void> {
    const run = (signal: AbortSignal) => session.run(op, { signal });
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

  #replaceToken(session: TrainingRunner, { signal }: Coordinator): void {
    this.#persist(session, this.#optimizer.replaceTokenOp, signal).catch((error: unknown) => {
      if (!signal.aborted)
        this.#log(`the token of a lost worker could not be replaced: ${describeError(error)}`);
    });
  }
}
