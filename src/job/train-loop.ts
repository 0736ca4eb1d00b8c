/** The loop of a worker: steps until the last one, several under way if asked, with a line now and then. */
import { isShoalError } from '../errors/errors.js';
import { explainDataLoss } from '../input/files/corrupt-records.js';
import type { RecoverableSession } from '../train/recovery/recoverable-session.js';
import type { TrainOptions } from './define-job.js';
import type { LeasedSteps } from './leased-steps.js';
import type { JobSummaries } from './summaries.js';
import type { TrainingGraph } from './training-graph.js';

export interface LoopOptions extends Omit<TrainOptions, 'summaries'> {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly onStep?: (step: number) => void;
  /** Makes the steps where the input is leased. */
  readonly leased?: LeasedSteps | undefined;
  /** Writes the model's summaries, on the chief. */
  readonly summaries?: JobSummaries | undefined;
  /** Why the input ended, where that was not its end. */
  readonly inputFailure?: () => { readonly error: unknown } | undefined;
}

export interface LoopResult {
  /** The global step when this worker stopped. */
  readonly step: number;
  /** Steps that this worker made. */
  readonly ownSteps: number;
  readonly loss: number | undefined;
  readonly interrupted: boolean;
}

/** A step without summaries. */
const PLAIN: Pick<JobSummaries, 'step'> = { step: (session, fetches) => session.run(fetches) };

export async function trainLoop(
  session: RecoverableSession,
  parts: TrainingGraph,
  options: LoopOptions,
): Promise<LoopResult> {
  const { lastStep, inflight = 1, signal, log, onStep, leased, inputFailure, logEverySecs = 5 } = options;
  const { summaries } = options;
  const { stepAfter, globalStep, loss } = parts;
  let step = (await session.run(globalStep)).number();
  let lastLoss: number | undefined;
  let ownSteps = 0;
  let isOver = false;
  let { recoveries } = session;
  let logged = { at: performance.now(), step };
  onStep?.(step);

  const attempt = async (lane: number) => {
    try {
      if (leased) return await leased.step(session, lane, signal, summaries);
      return await (summaries ?? PLAIN).step(session, [stepAfter, loss]);
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) throw await explainDataLoss(error, parts);
      const failure = inputFailure?.();
      if (failure) throw failure.error;
      return undefined;
    }
  };
  const lane = async (_: unknown, index: number) => {
    while (step < lastStep && !signal.aborted && !isOver) {
      const made = await attempt(index);
      if (!made) {
        if (!isOver) log(`the input is at its end at step ${step}`);
        isOver = true;
        return;
      }
      const [now, value] = made;
      ownSteps += 1;
      // Steps under way at once end in any order; after a recovery training may be further back.
      if (session.recoveries === recoveries) step = Math.max(step, now.number());
      else {
        step = now.number();
        ({ recoveries } = session);
        logged = { at: performance.now(), step };
      }
      lastLoss = value.number();
      onStep?.(step);
      const elapsed = performance.now() - logged.at;
      if (elapsed > logEverySecs * 1000) {
        const rate = ((step - logged.step) / elapsed) * 1000;
        logged = { at: performance.now(), step };
        log(`step ${step} of ${lastStep} · ${rate.toFixed(0)} steps/s · loss ${lastLoss.toPrecision(4)}`);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: inflight }, lane));
  } catch (error) {
    if (!(signal.aborted && isShoalError(error))) throw error;
  }
  return { step, ownSteps, loss: lastLoss, interrupted: signal.aborted && step < lastStep && !isOver };
}

/** Outputs that are computed of the input have no value when it is at its end. */
export function unlessInputIsOver(error: unknown): Record<string, never> {
  if (isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return {};
  throw error;
}
