/**
 * Synchronous training in a monitored session. Every worker begins at the step where the others are; the chief makes
 * the steps of what the workers give, in the background, and gives a token more when a worker is lost.
 */
import { sleep } from '../../async/deadline.js';
import { parseTaskId } from '../../cluster/spec/task-id.js';
import { messageOf } from '../../errors/errors.js';
import type { SyncReplicasOptimizer } from '../../optimizers/sync-replicas.js';
import { checkpointServiceOf } from '../checkpoints/checkpoint-service.js';
import type { Coordinator } from '../recovery/coordinator.js';
import { isRecoverable } from '../recovery/recoverable-session.js';
import type { TrainingRunner } from '../recovery/training-runner.js';
import { type HookSetup, SessionRunHook } from './session-run-hook.js';
import { startSync } from './start-sync.js';

/** Steps rest for a cut this far ahead of the step that the chief has seen. */
const PAUSE_AHEAD_STEPS = 2;
const RETRY_MS = 200;

export class SyncReplicasHook extends SessionRunHook {
  readonly #optimizer: SyncReplicasOptimizer;
  readonly #isChief: boolean;
  #log!: (line: string) => void;
  #leads = false;
  #unsubscribe = () => {};
  readonly #over = new AbortController();

  constructor(optimizer: SyncReplicasOptimizer, { isChief }: { readonly isChief: boolean }) {
    super();
    this.#optimizer = optimizer;
    this.#isChief = isChief;
  }

  override begin({ log }: HookSetup): void {
    this.#log = log;
  }

  override async afterCreateSession(session: TrainingRunner, coordinator: Coordinator): Promise<void> {
    const { localStepInitOp } = this.#optimizer;
    const { server } = session;
    const service = server && checkpointServiceOf(server);
    if (service) service.pauseAheadSteps = PAUSE_AHEAD_STEPS;
    await session.run(localStepInitOp);
    if (!this.#isChief) return;
    await startSync(session, this.#optimizer, { signal: coordinator.signal, log: this.#log });
    if (this.#leads) return;
    this.#leads = true;
    const leading = this.#lead(session, AbortSignal.any([coordinator.signal, this.#over.signal]));
    coordinator.register(leading, 'synchronous steps');
    if (service) {
      service.stopSteps = () => {
        this.#over.abort('training is over');
        return leading;
      };
    }
    if (server) {
      this.#unsubscribe = server.task.events.on('lost', ({ member }) => {
        if (parseTaskId(member.task).job !== 'ps') this.#replaceToken(session, coordinator);
      });
    }
  }

  override async end(session: TrainingRunner): Promise<void> {
    this.#unsubscribe();
    // Nobody is to wait for a token when this chief is gone.
    if (this.#isChief) await session.run(this.#optimizer.releaseOp);
  }

  async #lead(session: TrainingRunner, signal: AbortSignal): Promise<void> {
    const step = (signal: AbortSignal) => session.run(this.#optimizer.syncOp, { signal });
    while (!signal.aborted) {
      try {
        // What waits for gradients when the cluster is lost would take those of the recovered one.
        await (session.recoveryGuard?.during('A synchronous step', step, signal) ?? step(signal));
      } catch (error) {
        if (signal.aborted) return;
        const isGivenUp = session.recoveryGuard?.isStable === false;
        if (!isGivenUp && !isRecoverable(error)) throw error;
        await sleep(RETRY_MS, signal).catch(() => {
          // The loop looks at the signal.
        });
      }
    }
  }

  #replaceToken(session: TrainingRunner, { signal }: Coordinator): void {
    session.run(this.#optimizer.replaceTokenOp, { signal }).catch((error: unknown) => {
      if (!signal.aborted) this.#log(`a token could not be replaced: ${messageOf(error)}`);
    });
  }
}
