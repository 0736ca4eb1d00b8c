/** Training in epochs over examples in memory. The steps, and the session that makes them, are those of train/core. */
import { invalid, ShoalError } from '../../base/errors/errors.js';
import { ProgressLine, type ProgressOutput } from '../../base/text/progress-line.js';
import { checkFinite } from '../../tensorflow/layers/finite.js';
import { seededRandom } from '../../tensorflow/tensor/seeded-random.js';
import type { Results } from '../../training/train/evaluation/evaluate.js';
import type { FitCallback, FitControl, Logs } from './callbacks.js';
import { batchesOf, type Examples, type Labels, type Rows } from './data.js';
import type { ModelSession, TrainingParts } from './model-session.js';

export interface FitOptions {
  /** Passes over the examples. Default: 1. */
  readonly epochs?: number;
  /** Examples per step. Default: 32. */
  readonly batchSize?: number;
  /** Whether each epoch has the examples in another order. Default: true. */
  readonly shuffle?: boolean;
  /** Makes the order repeatable; default: none, random. */
  readonly seed?: number;
  /** Examples and labels to evaluate after each epoch. Default: none. */
  readonly validationData?: readonly [x: Examples, y: Labels];
  /** Default: none. */
  readonly callbacks?: readonly FitCallback[];
  /** Prints the progress; default: whether the output is a terminal. */
  readonly verbose?: boolean;
  /** Where the progress is printed. Default: `process.stdout`. */
  readonly output?: ProgressOutput;
  /** Ends training before the next step, with SHOAL_ABORTED. Default: none. */
  readonly signal?: AbortSignal;
}

/** The values of each epoch. */
export interface History {
  /** The epochs that were completed, counted from 0. */
  readonly epoch: readonly number[];
  /** The loss and the metrics by name, for each epoch; those of the validation begin with `val_`. */
  readonly history: Readonly<Record<string, readonly number[]>>;
}

export interface FitParts {
  readonly session: ModelSession;
  readonly training: TrainingParts;
  readonly rows: Rows;
  readonly validation: Rows | undefined;
}

export const BATCH_SIZE = 32;

export async function fitRows(
  { session, training, rows, validation }: FitParts,
  options: Omit<FitOptions, 'validationData'>,
): Promise<History> {
  const { epochs = 1, batchSize = BATCH_SIZE, shuffle = true, seed, callbacks = [], signal } = options;
  const { output = process.stdout, verbose = output.isTTY ?? false } = options;
  checkCount('epochs', epochs);
  checkCount('batchSize', batchSize);
  const random = shuffle ? (seed === undefined ? Math.random : seededRandom(seed)) : undefined;
  let logs: Results = {};
  const describe = (done: number, total: number) => [`${done}/${total}`, ...described(logs)].join(' · ');
  const progress = verbose ? new ProgressLine(output, { describe }) : undefined;
  const total = rows.batchCount(batchSize);
  const history = new Map<string, number[]>();
  const completed: number[] = [];
  let isStopped = false;
  const control: FitControl = {
    stop: () => {
      isStopped = true;
    },
  };
  for (let epoch = 0; epoch < epochs && !isStopped; epoch++) {
    const begun = performance.now();
    const title = `epoch ${epoch + 1}/${epochs}`;
    progress?.label(title);
    await session.resetMetrics(training);
    logs = {};
    let batch = 0;
    for (const feeds of batchesOf(rows, batchSize, random)) {
      if (signal?.aborted) throw new ShoalError('SHOAL_ABORTED', `fit was stopped in epoch ${epoch + 1}`);
      logs = await session.trainOn(training, feeds, signal);
      checkFinite(logs.loss ?? 0, { name: 'The loss', step: epoch * total + batch + 1 });
      batch += 1;
      progress?.update(batch, total);
      for (const { onBatchEnd } of callbacks) await onBatchEnd?.(batch - 1, logs, control);
      if (isStopped) break;
    }
    const validated = validation && (await session.evaluate(training, validation, batchSize, signal));
    const all: Logs = { ...logs, ...prefixed(validated) };
    completed.push(epoch);
    for (const [name, value] of Object.entries(all)) {
      const values = history.get(name) ?? [];
      values.push(value);
      history.set(name, values);
    }
    const secs = ((performance.now() - begun) / 1000).toFixed(1);
    progress?.note([title, `${secs} s`, ...described(all)].join(' · '));
    for (const { onEpochEnd } of callbacks) await onEpochEnd?.(epoch, all, control);
  }
  return { epoch: completed, history: Object.fromEntries(history) };
}

const described = (logs: Logs): string[] =>
  Object.entries(logs).map(([name, value]) => `${name} ${value.toPrecision(4)}`);

const prefixed = (results: Results = {}): Logs =>
  Object.fromEntries(Object.entries(results).map(([name, value]) => [`val_${name}`, value]));

export function checkCount(what: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1)
    throw invalid(`${what} must be a positive integer; it is ${value}`);
}
