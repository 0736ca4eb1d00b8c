/**
 * Prepares synchronous steps on the chief. A chief that died or lost its session may have taken the gradients of one ps
 * and not of another, or may have applied a step without issuing tokens: every worker would then wait for a token
 * forever. So a restarted chief discards the gradients that were sent, and all workers send theirs again.
 */

import { backoffMs } from '../../../../base/async/backoff.js';
import { sleep } from '../../../../base/async/deadline.js';
import { firstLineOf, isShoalError } from '../../../../base/errors/errors.js';
import type { Log } from '../../../../base/text/log.js';
import type { SyncReplicasOptimizer } from '../../../../tensorflow/optimizers/sync/sync-replicas.js';
import type { Feeds } from '../../../../tensorflow/session/feeds.js';
import type { Runner } from '../../../../tensorflow/session/runner.js';

export interface StartSyncOptions {
  /** The tokens of each worker, for the very first step or a later one; default: those of a complete cluster. */
  readonly tokens?: (isFirst: boolean) => Feeds;
  readonly signal?: AbortSignal;
  readonly log?: Log;
}

const TIMEOUT_MS = 15_000;
const ATTEMPTS = 10;
const RETRY = { baseMs: 200, maxMs: 2000 };

/** Returns false if training has ended: there are no more tokens then. */
export async function startSync(
  runner: Runner,
  optimizer: SyncReplicasOptimizer,
  { tokens, signal, log }: StartSyncOptions = {},
): Promise<boolean> {
  const { wasStarted, wasClosed, initTokensOp, restartOp, markStartedOp } = optimizer;
  const options = { timeoutMs: TIMEOUT_MS, signal };
  const isRestart = (await runner.run(wasStarted, options)).toArray() as unknown as boolean;
  if (!isRestart) {
    await runner.run([initTokensOp], { ...options, feeds: tokens?.(true) });
    await runner.run([markStartedOp], options);
    return true;
  }
  if ((await runner.run(wasClosed, options)).toArray() as unknown as boolean) {
    log?.('synchronous training has ended');
    return false;
  }
  log?.('synchronous training was started before: all workers compute the gradients of this step again');
  for (let attempt = 1; ; attempt++) {
    try {
      await runner.run([restartOp], { ...options, feeds: tokens?.(false) });
      return true;
    } catch (error) {
      // The run of an earlier chief may still wait for gradients, and TensorFlow serves waiting runs in order.
      if (attempt === ATTEMPTS || !isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED')) throw error;
      log?.(`the gradient accumulators could not be cleared: ${firstLineOf(error)}; retrying`);
      await sleep(backoffMs(attempt, RETRY), signal);
    }
  }
}
