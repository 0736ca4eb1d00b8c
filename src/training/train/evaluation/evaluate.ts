/** One evaluation: the metrics of a graph over batches of its input, with the current values of the variables. */
import { invalid, isShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import type { Feeds } from '../../../tensorflow/session/feeds.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import type { MaybePromise } from '../hooks/session-run-hook.js';
import type { TrainingRunner } from '../task/training-runner.js';

/** A metric as `tf.metrics` returns it. */
export interface StreamingMetric {
  readonly value: Output;
  readonly updateOp: Output | Operation;
  /** Resets the counters to 0; default: none, they accumulate over evaluations. */
  readonly reset?: Operation;
}

export interface Evaluation {
  readonly metrics: Readonly<Record<string, StreamingMetric>>;
  /** The number of batches. Default: until the end of the input. */
  readonly batches?: number;
  /** Read with each batch: the evaluation then ends with them, even if no metric depends on them. Default: none. */
  readonly input?: readonly Operation[];
  /** Initializes the input; run before the first batch. Default: none. */
  readonly initOp?: Operation;
  /** Returns the feeds of each batch, or undefined at the end of the input; default: none. */
  readonly feeds?: (batch: number) => MaybePromise<Feeds | undefined>;
}

export type Results = Readonly<Record<string, number>>;

export async function evaluate(
  session: TrainingRunner,
  evaluation: Evaluation,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<Results> {
  const { metrics, batches = Number.POSITIVE_INFINITY, input = [], initOp, feeds } = evaluation;
  const all = Object.entries(metrics);
  if (all.length === 0) throw invalid('There are no metrics to evaluate');
  const within: RunOptions = signal ? { signal } : {};
  const resets = all.flatMap(([, { reset }]) => (reset ? [reset] : []));
  await session.run([...resets, ...(initOp ? [initOp] : [])], within);
  const updates = [...all.map(([, { updateOp }]) => updateOp), ...input];
  let done = 0;
  while (done < batches) {
    const own = await feeds?.(done);
    if (feeds && !own) break;
    try {
      await session.run(updates, { ...within, feeds: own });
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) throw error;
      break;
    }
    done += 1;
  }
  if (done === 0) {
    throw invalid('The input of the evaluation has no batch', {
      hint: 'It is empty, or its filters and batch sizes leave nothing. An input that was read to its end before must be restarted: pass its initializer as initOp.',
    });
  }
  const values = await session.run(
    all.map(([, { value }]) => value),
    within,
  );
  return Object.fromEntries(all.map(([name], i) => [name, values[i]?.number() as number]));
}

/** `accuracy = 0.91, loss = 0.3`. */
export const describeResults = (results: Results): string =>
  Object.entries(results)
    .map(([name, value]) => `${name} = ${Number(value.toPrecision(6))}`)
    .join(', ');
