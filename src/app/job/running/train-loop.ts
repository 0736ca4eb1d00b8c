/** The training loop of a worker: runs steps until the last one, `inflight` at a time, and logs progress. */

import { onAborted } from '../../../base/async/on-aborted.js';
import { isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { isEndOfTokens } from '../../../tensorflow/optimizers/sync/sync-tokens.js';
import type { Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import { isFloating, isInteger } from '../../../tensorflow/tensor/dtype.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { endedAtOnce } from '../../../training/input/files/input-errors.js';
import type { RecoverableSession } from '../../../training/train/recovery/recoverable-session.js';
import type { TrainOptions } from '../definition/define-job.js';
import type { LoopResult } from '../definition/job-result.js';
import type { TrainingGraph } from '../graph/training-graph.js';
import { stepOf } from './step-text.js';

export interface TrainLoopOptions extends Pick<TrainOptions, 'lastStep' | 'inflight' | 'logEverySecs'> {
  /** The global step at the start. */
  readonly first: number;
  /** What a step waits for before it begins; undefined: nothing. */
  readonly inProgress: () => Promise<void> | undefined;
  /** Runs a training step. Fails with OUT_OF_RANGE at the end of the input. */
  readonly step: <const F extends Fetches>(fetches: F) => Promise<FetchResult<F>>;
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly onStep: (step: number, loss?: number) => void;
  /** Whether a hook requested the end of training. */
  readonly isStopRequested: () => boolean;
  /** Whether the scalar outputs of the model are part of the reports. Default: false. */
  readonly reportsOutputs?: boolean | undefined;
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
  const scalars = options.reportsOutputs ? scalarsOf(parts.outputs) : {};
  const hasScalars = (outputs: object) => Object.keys(scalars).every((name) => name in outputs);
  /** How long the last step took. Outputs are fetched with the steps that are expected to be reported. */
  let lastMs = Number.POSITIVE_INFINITY;
  const isDue = (ms: number) => performance.now() - logged.at + ms > logEverySecs * 1000;

  const attempt = async () => {
    try {
      return await options.step([stepAfter, loss, isDue(lastMs) ? scalars : {}]);
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) throw error;
      hasNoTokens = isEndOfTokens(error);
      if (!isOver) log(`${hasNoTokens ? 'the chief has ended training' : 'the input ended'} at step ${step}`);
      return undefined;
    }
  };
  const makeSteps = async () => {
    const isAllowed = () => step < lastStep && !signal.aborted && !isOver && !options.isStopRequested();
    while (isAllowed()) {
      const work = options.inProgress();
      if (work) {
        await endOf(work, signal);
        continue;
      }
      const begun = performance.now();
      const made = await attempt();
      if (!made) {
        isOver = true;
        return;
      }
      const [now, value, outputs] = made;
      lastMs = performance.now() - begun;
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
      onStep(step, lastLoss);
      if (isDue(0) && hasScalars(outputs)) {
        const rate = ((step - logged.step) / (performance.now() - logged.at)) * 1000;
        logged = { at: performance.now(), step };
        log(
          `${stepOf(step, lastStep)} · ${rate.toFixed(0)} steps/s · loss ${lastLoss.toPrecision(4)}`,
          'info',
          {
            event: 'step',
            step,
            lastStep,
            stepsPerSecond: rate,
            loss: lastLoss,
            outputs: valuesOf(outputs),
          },
        );
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

/** Resolves when the work has ended, or the signal is aborted. */
const endOf = (work: Promise<void>, signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    const stop = onAborted(signal, () => done());
    void work.finally(() => {
      stop();
      done();
    });
  });

const scalarsOf = (outputs: TrainingGraph['outputs']): Record<string, Output> =>
  Object.fromEntries(
    Object.entries(outputs).filter(
      ([, { rank, dtype }]) => rank === 0 && (isFloating(dtype) || isInteger(dtype) || dtype === 'bool'),
    ),
  );

/** Undefined if there are none. */
function valuesOf(outputs: Readonly<Record<string, Tensor>>): Record<string, unknown> | undefined {
  const values = Object.entries(outputs).map(([name, tensor]) => [name, tensor.item()] as const);
  return values.length === 0 ? undefined : Object.fromEntries(values);
}

/** Returns no outputs if the error is the end of the input; else throws it. */
export function unlessInputIsOver(error: unknown): Record<string, never> {
  if (isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return {};
  throw error;
}
