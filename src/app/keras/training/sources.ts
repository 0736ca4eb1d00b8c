/** Where batches come from: arrays in memory, a dataset, or a generator. */
import { invalid, isShoalError } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import type { TensorLike } from '../../../tensorflow/tensor/tensor.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Dataset } from '../../../training/input/dataset/dataset.js';
import { INPUT_FEEDERS } from '../../../training/input/dataset/generator.js';
import { type Batch, batchesOf, type Examples, type Labels, type Rows } from './data.js';

/** A batch from a generator: [x, y] or [x, y, sampleWeight], or the inputs by name with `y` and `sampleWeight`. */
export type GivenBatch =
  | readonly [x: Examples, y: Labels, sampleWeight?: TensorLike]
  | Readonly<Record<string, TensorLike>>;
type Batches = Iterable<GivenBatch> | AsyncIterable<GivenBatch>;
/** A dataset of batches, or a generator of them; or a function that makes it, which is called for every epoch. */
export type FitSource = Dataset | Batches | (() => Dataset | Batches);

/** A source whose first batch has been read, to learn its types. */
export interface OpenedSource extends BatchSource {
  /** The same source; its first pass begins with this batch and continues with `rest`. */
  withFirst(rest: AsyncIterator<Batch>, batch: Batch): BatchSource;
}

/** The batches of an input. */
export interface BatchSource {
  /** The number of batches of a pass, if it is known. */
  readonly count: number | undefined;
  /** Starts a pass. */
  open(): AsyncIterator<Batch>;
  close(): Promise<void>;
}

export const isSource = (given: unknown): given is FitSource =>
  given instanceof Dataset ||
  typeof given === 'function' ||
  (typeof given === 'object' &&
    given !== null &&
    !Array.isArray(given) &&
    !ArrayBuffer.isView(given) &&
    !(given instanceof Tensor) &&
    (Symbol.iterator in given || Symbol.asyncIterator in given));

export function rowSource(rows: Rows, size: number, random?: () => number): BatchSource {
  return {
    count: rows.batchCount(size),
    async *open() {
      yield* batchesOf(rows, size, random);
    },
    close: async () => {},
  };
}

/** `read` checks a batch and names its tensors. */
export function openSource(given: FitSource, read: (batch: GivenBatch) => Batch): OpenedSource {
  const source = sourceOf(given, read);
  const withFirst = (rest: AsyncIterator<Batch>, batch: Batch): BatchSource => {
    let isFirst = true;
    async function* begun() {
      try {
        yield batch;
        for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
      } finally {
        await rest.return?.();
      }
    }
    return {
      ...source,
      open: () => {
        if (!isFirst) return source.open();
        isFirst = false;
        return begun();
      },
    };
  };
  return { ...source, withFirst };
}

function sourceOf(given: FitSource, read: (batch: GivenBatch) => Batch): BatchSource {
  if (given instanceof Dataset) return datasetSource(given, given.variant.graph, read);
  if (typeof given !== 'function') return iterableSource(() => given, read);
  const graph = new Graph();
  const first = graph.asDefault(() => given());
  if (first instanceof Dataset) {
    const source = datasetSource(first, graph, read);
    return { ...source, close: () => source.close().finally(() => graph.dispose()) };
  }
  graph.dispose();
  // The result of the first call is the first pass.
  let next: Batches | undefined = first;
  return iterableSource(() => {
    const own = next ?? (given() as Batches);
    next = undefined;
    return own;
  }, read);
}

function iterableSource(begin: () => Batches, read: (batch: GivenBatch) => Batch): BatchSource {
  return {
    count: undefined,
    async *open() {
      for await (const batch of begin()) yield read(batch);
    },
    close: async () => {},
  };
}

/** The graph of the dataset runs in a session of its own; its elements are fed to the model. */
function datasetSource(dataset: Dataset, graph: Graph, read: (batch: GivenBatch) => Batch): BatchSource {
  if (graph.getCollection(INPUT_FEEDERS).length > 0)
    throw invalid('fit and evaluate cannot run a dataset of tf.data.generator', {
      hint: 'Give them the function that returns the generator, which yields batches.',
    });
  const { iterator, next } = graph.asDefault(() => {
    const made = dataset.makeInitializableIterator();
    return { iterator: made, next: made.getNext() as Readonly<Record<string, never>> };
  });
  const session = Session.open({ graph });
  return {
    count: undefined,
    async *open() {
      await session.run(iterator.initializer);
      for (;;) {
        let batch: GivenBatch;
        try {
          batch = (await session.run(next)) as unknown as GivenBatch;
        } catch (error) {
          if (isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return;
          throw error;
        }
        yield read(batch);
      }
    },
    close: () => session.close(),
  };
}

/** The parts of a batch. */
export function batchParts(
  batch: GivenBatch,
  method: string,
): { readonly x: Examples; readonly y: Labels; readonly sampleWeight?: TensorLike } {
  if (Array.isArray(batch)) {
    const [x, y, sampleWeight] = batch as readonly [Examples, Labels, TensorLike?];
    return { x, y, ...(sampleWeight !== undefined && { sampleWeight }) };
  }
  const { sampleWeight, y, ...rest } = batch as Readonly<Record<string, TensorLike>>;
  const labels = Object.entries(rest).filter(([name]) => name.startsWith('y/'));
  const x = Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith('y/')));
  const found =
    y ??
    (labels.length > 0 ? Object.fromEntries(labels.map(([name, one]) => [name.slice(2), one])) : undefined);
  if (found === undefined)
    throw invalid(`${method} got a batch without labels: it has ${Object.keys(batch).join(', ')}`, {
      hint: "A batch is { x, y }, with the inputs by name, or [x, y]; the labels of several outputs are 'y/NAME'.",
    });
  return { x, y: found as Labels, ...(sampleWeight !== undefined && { sampleWeight }) };
}
