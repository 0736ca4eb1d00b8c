/**
 * Synchronous training in a monitored session. Every worker starts at the step of the others. The chief applies the
 * gradients of the workers in the background, and issues one more token when a worker is lost.
 */
import { sleep } from '../../async/deadline.js';
import { parseTaskId } from '../../cluster/spec/task-id.js';
import { messageOf } from '../../errors/errors.js';
import type { SyncReplicasOptimizer } from '../../optimizers/sync-replicas.js';
import type { Coordinator } from '../recovery/coordinator.js';
import { isRecoverable } from '../recovery/recoverable-session.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { type HookSetup, SessionRunHook } from './session-run-hook.js';
import { startSync } from './start-sync.js';

/** For a snapshot, steps pause this far ahead of the step that the chief has seen. */
const PAUSE_AHEAD_STEPS = 2;
const RETRY_MS = 200;

export interface SyncReplicasHookOptions {
  readonly isChief: boolean;
  /** Receives log lines; default: the log of the monitored session. */
  readonly log?: (line: string) => void;
}

export class SyncReplicasHook extends SessionRunHook {
  readonly #optimizer: SyncReplicasOptimizer;
  readonly #isChief: boolean;
  #log: (line: string) => void;
  #isLeading = false;
  #unsubscribe = () => {};
  readonly #over = new AbortController();

  constructor(optimizer: SyncReplicasOptimizer, { isChief, log = () => {} }: SyncReplicasHookOptions) {
    super();
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
    await session.run(localStepInitOp);
    if (!this.#isChief) return;
    await startSync(session, this.#optimizer, { signal: coordinator.signal, log: this.#log });
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
    // No worker may wait for a token after this chief has left.
    if (this.#isChief) await session.run(this.#optimizer.releaseOp);
  }

  async #lead(session: TrainingRunner, signal: AbortSignal): Promise<void> {
    const step = (signal: AbortSignal) => session.run(this.#optimizer.syncOp, { signal });
    while (!signal.aborted) {
      try {
        // A run that waits for gradients during a loss would otherwise take those of the recovered cluster.
        await (session.recoveryGuard?.during('A synchronous step', step, signal) ?? step(signal));
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
    session.run(this.#optimizer.replaceTokenOp, { signal }).catch((error: unknown) => {
      if (!signal.aborted) this.#log(`the token of a lost worker could not be replaced: ${messageOf(error)}`);
    });
  }
}
