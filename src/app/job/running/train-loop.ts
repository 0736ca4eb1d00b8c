/** The training loop of a worker: runs steps until the last one, `inflight` at a time, and logs progress. */

import { isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { isEndOfTokens } from '../../../tensorflow/optimizers/sync/sync-tokens.js';
import type { Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import { endedAtOnce } from '../../../training/input/files/input-errors.js';
import type { RecoverableSession } from '../../../training/train/recovery/recoverable-session.js';
import type { TrainOptions } from '../definition/define-job.js';
import type { LoopResult } from '../definition/job-result.js';
import type { TrainingGraph } from '../graph/training-graph.js';
import { stepOf } from './step-text.js';

export interface TrainLoopOptions extends Pick<TrainOptions, 'lastStep' | 'inflight' | 'logEverySecs'> {
  /** The global step at the start. */
  readonly first: number;
  /** Runs a training step. Fails with OUT_OF_RANGE at the end of the input. */
  readonly step: <const F extends Fetches>(fetches: F) => Promise<FetchResult<F>>;
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly onStep: (step: number) => void;
  /** Whether a hook requested the end of training. */
  readonly isStopRequested: () => boolean;
}

export async function trainLoop(
  session: Pick<RecoverableSession, 'recoveries'>,
  parts: TrainingGraph,
  options: TrainLoopOptions,
): Promise<LoopResult> {
  const { lastStep, inflight = 1, signal, log, onStep, logEverySecs = 5 } = options;
  const { stepAfter, loss } = parts;
  let step = options.first;
  let lastLoss: number | undefined;
  let ownSteps = 0;
  let isOver = false;
  let hasNoTokens = false;
  /** When `step` was received. */
  let seenAt = performance.now();
  let { recoveries } = session;
  let logged = { at: performance.now(), step };
  onStep(step);

  const attempt = async () => {
    try {
      return await options.step([stepAfter, loss]);
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) throw error;
      hasNoTokens = isEndOfTokens(error);
      if (!isOver) log(`${hasNoTokens ? 'the chief has ended training' : 'the input ended'} at step ${step}`);
      return undefined;
    }
  };
  const makeSteps = async () => {
    while (step < lastStep && !signal.aborted && !isOver && !options.isStopRequested()) {
      const begun = performance.now();
      const made = await attempt();
      if (!made) {
        isOver = true;
        return;
      }
      const [now, value] = made;
      ownSteps += 1;
      // Steps in flight end in any order. A lower number of one that began later, or that was repeated in a recovery,
      // is that of a step after a restore.
      if (now.number() > step || begun >= seenAt || session.recoveries !== recoveries) {
        step = now.number();
        seenAt = performance.now();
        ({ recoveries } = session);
        if (step < logged.step) logged = { at: seenAt, step };
      }
      lastLoss = value.number();
      onStep(step);
      const elapsed = performance.now() - logged.at;
      if (elapsed > logEverySecs * 1000) {
        const rate = ((step - logged.step) / elapsed) * 1000;
        logged = { at: performance.now(), step };
        log(`${stepOf(step, lastStep)} · ${rate.toFixed(0)} steps/s · loss ${lastLoss.toPrecision(4)}`);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: inflight }, makeSteps));
  } catch (error) {
    if (!(signal.aborted && isShoalError(error))) throw error;
  }
  // Leases may all be those of other workers, and tokens end with training.
  if (isOver && ownSteps === 0 && !parts.shards && !hasNoTokens) {
    const error = await endedAtOnce(parts.graph, signal);
    if (error) throw error;
  }
  return { step, ownSteps, loss: lastLoss, interrupted: signal.aborted && step < lastStep && !isOver };
}

/** Returns no outputs if the error is the end of the input; else throws it. */
export function unlessInputIsOver(error: unknown): Record<string, never> {
  if (isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return {};
  throw error;
}
