/** Training in epochs. The steps, and the session that makes them, are those of train/core. */
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import { ProgressLine, type ProgressOutput } from '../../../base/text/progress-line.js';
import { checkFinite } from '../../../tensorflow/layers/finite.js';
import type { Tensor, TensorLike } from '../../../tensorflow/tensor/tensor.js';
import type { Results } from '../../../training/train/evaluation/evaluate.js';
import type { FitCallback, FitControl, Logs } from './callback.js';
import type { ClassWeight } from './class-weights.js';
import type { Batch, Examples, Labels } from './data.js';
import type { ModelSession, TrainingPlan } from './model-session.js';
import type { BatchSource, FitSource } from './sources.js';

export interface FitOptions {
  /** Training ends after this epoch. Default: 1. */
  readonly epochs?: number;
  /** The first epoch, counted from 0: the number of those that were trained before. Default: 0. */
  readonly initialEpoch?: number;
  /** Examples per step, of arrays. Default: 32. */
  readonly batchSize?: number;
  /** Batches of an epoch; the next one continues where it ended. Default: all that the input has. */
  readonly stepsPerEpoch?: number;
  /** Whether each epoch has the examples of arrays in another order. Default: true. */
  readonly shuffle?: boolean;
  /** Makes the order repeatable; default: none, random. */
  readonly seed?: number;
  /** The weight of each example of arrays, [examples], or of each step, [examples, steps]. Default: 1. */
  readonly sampleWeight?: TensorLike;
  /** The weight of each class by its number, for a model with one output. Default: 1. */
  readonly classWeight?: ClassWeight;
  /** The fraction of arrays, at their end, to evaluate after each epoch instead of training on it. Default: none. */
  readonly validationSplit?: number;
  /** Arrays, or a dataset or generator of batches, to evaluate after each epoch. Default: none. */
  readonly validationData?: readonly [x: Examples, y: Labels, sampleWeight?: TensorLike] | FitSource;
  /** Batches of a validation; default: all. */
  readonly validationSteps?: number;
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
  readonly plan: TrainingPlan;
  readonly source: BatchSource;
  readonly validation: BatchSource | undefined;
  readonly classTable: Tensor | undefined;
  readonly control: Omit<FitControl, 'stop' | 'note'>;
}

export const BATCH_SIZE = 32;

export async function fitSource(parts: FitParts, options: FitOptions): Promise<History> {
  const { session, plan, source, validation, classTable } = parts;
  const { epochs = 1, initialEpoch = 0, stepsPerEpoch, validationSteps, callbacks = [], signal } = options;
  const { output = process.stdout, verbose = output.isTTY ?? false } = options;
  checkFitCount('epochs', epochs);
  if (initialEpoch !== 0) checkFitCount('initialEpoch', initialEpoch);
  for (const [name, count] of Object.entries({ stepsPerEpoch, validationSteps }))
    if (count !== undefined) checkFitCount(name, count);
  if (initialEpoch >= epochs)
    throw invalid(`initialEpoch is ${initialEpoch}, but training ends after epoch ${epochs}`);
  let logs: Results = {};
  const describe = (done: number, total: number) =>
    [total > 0 ? `${done}/${total}` : `${done}`, ...described(logs)].join(' · ');
  const progress = verbose ? new ProgressLine(output, { describe }) : undefined;
  const total = stepsPerEpoch ?? source.count;
  const history = new Map<string, number[]>();
  const completed: number[] = [];
  let isStopped = false;
  const control: FitControl = {
    ...parts.control,
    stop: () => {
      isStopped = true;
    },
    note: (line) => progress?.note(line),
  };
  const call = async (use: (callback: FitCallback) => unknown) => {
    for (const callback of callbacks) await use(callback);
  };
  const pass = new Pass(source, stepsPerEpoch);
  let all: Logs = {};
  let steps = 0;
  try {
    await call((callback) => callback.onTrainBegin?.(control));
    for (let epoch = initialEpoch; epoch < epochs && !isStopped; epoch++) {
      const begun = performance.now();
      const title = `epoch ${epoch + 1}/${epochs}`;
      progress?.label(title);
      await session.resetMetrics(plan);
      logs = {};
      await call((callback) => callback.onEpochBegin?.(epoch, control));
      let batch = 0;
      for await (const feeds of pass.epoch(epoch)) {
        if (signal?.aborted) throw new ShoalError('SHOAL_ABORTED', `fit was stopped in epoch ${epoch + 1}`);
        logs = await session.trainOn(plan, feeds, { classTable, signal });
        steps += 1;
        checkFinite(logs.loss ?? 0, { name: 'The loss', step: steps });
        batch += 1;
        progress?.update(batch, total ?? 0);
        await call((callback) => callback.onBatchEnd?.(batch - 1, logs, control));
        if (isStopped) break;
      }
      const validated =
        validation && (await session.evaluate(plan, limited(validation.open(), validationSteps), signal));
      all = { ...logs, ...prefixed(validated) };
      completed.push(epoch);
      for (const [name, value] of Object.entries(all)) {
        const values = history.get(name) ?? [];
        values.push(value);
        history.set(name, values);
      }
      const secs = ((performance.now() - begun) / 1000).toFixed(1);
      progress?.note([title, `${secs} s`, ...described(all)].join(' · '));
      await call((callback) => callback.onEpochEnd?.(epoch, all, control));
    }
    await call((callback) => callback.onTrainEnd?.(all, control));
  } finally {
    await pass.end();
  }
  return { epoch: completed, history: Object.fromEntries(history) };
}

/** The batches of epochs: a pass each, or `steps` batches each of one long pass. */
class Pass {
  readonly #source: BatchSource;
  readonly #steps: number | undefined;
  #open: AsyncIterator<Batch> | undefined;

  constructor(source: BatchSource, steps: number | undefined) {
    this.#source = source;
    this.#steps = steps;
  }

  async *epoch(epoch: number): AsyncGenerator<Batch> {
    if (this.#steps === undefined) await this.end();
    this.#open ??= this.#source.open();
    for (let batch = 0; this.#steps === undefined || batch < this.#steps; batch++) {
      let next = await this.#open.next();
      // Arrays have no end.
      if (next.done && this.#steps !== undefined && this.#source.count !== undefined) {
        this.#open = this.#source.open();
        next = await this.#open.next();
      }
      if (!next.done) {
        yield next.value;
        continue;
      }
      if (this.#steps === undefined && batch > 0) return;
      throw invalid(
        this.#steps === undefined
          ? `The input has no batch in epoch ${epoch + 1}`
          : `The input ended after ${batch} of ${this.#steps} batches of epoch ${epoch + 1}`,
        {
          hint: 'Give a dataset that repeats, or a function that returns a generator, which is called for every epoch.',
        },
      );
    }
  }

  async end(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    await open?.return?.();
  }
}

/** At most so many batches. */
export async function* limited(
  batches: AsyncIterator<Batch>,
  count = Number.POSITIVE_INFINITY,
): AsyncGenerator<Batch> {
  try {
    for (let i = 0; i < count; i++) {
      const next = await batches.next();
      if (next.done) return;
      yield next.value;
    }
  } finally {
    await batches.return?.();
  }
}

const described = (logs: Logs): string[] =>
  Object.entries(logs).map(([name, value]) => `${name} ${value.toPrecision(4)}`);

const prefixed = (results: Results = {}): Logs =>
  Object.fromEntries(Object.entries(results).map(([name, value]) => [`val_${name}`, value]));

export function checkFitCount(what: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1)
    throw invalid(`${what} must be a positive integer; it is ${value}`);
}
