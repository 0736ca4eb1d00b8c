/**
 * The input functions of TensorFlow 1: a queue of file names and a queue of batches. Their queue runners are in the
 * graph's collection and started with the session. Datasets need fewer runs; use this for existing programs.
 */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import { currentGraph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { asOutput, isOutputLike, type Operand } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { randomShuffle } from '../../../tensorflow/ops/random.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { newVariable } from '../../../tensorflow/variables/variable-scope.js';
import { building } from '../dataset/sources.js';
import {
  batched,
  type DatasetElement,
  flattenElement,
  flattenSlices,
  unflattenElement,
} from '../dataset/structure.js';
import { fifoQueue, paddingFifoQueue, type Queue, randomShuffleQueue } from './queue.js';
import { addQueueRunner, QueueRunner } from './queue-runner.js';

/** A local variable with the files that match when it is initialized. */
export function matchFilenamesOnce(
  pattern: string | readonly string[],
  options: { readonly name?: string | null } = {},
): Variable<'string'> {
  const patterns = typeof pattern === 'string' ? [pattern] : [...pattern];
  return building(() =>
    newVariable<'string'>(
      () => raw.matchingFiles(Tensor.of(patterns, { dtype: 'string', shape: [patterns.length] })),
      {
        name: options.name ?? 'matching_filenames',
        trainable: false,
        collections: [GraphKeys.localVariables],
      },
    ),
  );
}

export interface StringInputProducerOptions {
  /** How often all strings are produced; default: forever. The count is a local variable. */
  readonly numEpochs?: number;
  /** Whether to shuffle within each epoch; default: true. */
  readonly shuffle?: boolean;
  /** The seed of the order; default: the graph's seed, else random. */
  readonly seed?: number;
  /** How many strings the queue holds; default: 32. */
  readonly capacity?: number;
  /** The name by which sessions share the queue; default: the name of its op. */
  readonly sharedName?: string;
  /** The name scope of the ops; default: `input_producer`. */
  readonly name?: string;
}

/** A queue of strings, usually names of files. */
export function stringInputProducer(
  strings: Operand<'string'> | readonly string[],
  given: OrNull<StringInputProducerOptions> = {},
): Queue {
  const options = withoutNull<StringInputProducerOptions>(given);
  const { numEpochs, shuffle = true, seed, capacity = 32, sharedName, name = 'input_producer' } = options;
  if (numEpochs !== undefined && (!Number.isSafeInteger(numEpochs) || numEpochs < 1))
    throw invalid(`numEpochs must be an integer of at least 1; got ${numEpochs}`);
  return building(() =>
    currentGraph().nameScope(name, () => {
      let values = nonEmpty(strings);
      if (shuffle) values = randomShuffle(values, { seed }) as Output<'string'>;
      if (numEpochs !== undefined) values = limitEpochs(values, numEpochs);
      const queue = fifoQueue({ capacity, dtypes: ['string'], shapes: [[]], sharedName });
      addQueueRunner(new QueueRunner({ queue, enqueueOps: [queue.enqueueMany([values])] }));
      return queue;
    }),
  );
}

function nonEmpty(strings: Operand<'string'> | readonly string[]): Output<'string'> {
  const message = 'stringInputProducer needs at least one string';
  if (Array.isArray(strings) && strings.length === 0) throw invalid(message);
  const values = asOutput(strings as Operand<'string'>, 'string');
  if (!isOutputLike(strings)) return values;
  const check = raw.assert(raw.greater(raw.size(values), 0), [asOutput(message)]);
  return raw.identity(values, { controlInputs: [check] }) as Output<'string'>;
}

/** Passes the values through, and fails with OUT_OF_RANGE after this many reads; null: never. */
export function limitEpochs<T extends Output>(values: T, numEpochs: number | null): T {
  if (numEpochs === null) return values;
  const epochs = newVariable(Tensor.of(0n), {
    name: 'limit_epochs/epochs',
    trainable: false,
    collections: [GraphKeys.localVariables],
  });
  const counted = raw.resourceCountUpTo(epochs.handle, { limit: numEpochs, t: 'int64' });
  return raw.identity(values, { controlInputs: [counted.op] }) as T;
}

export interface QueueBatchOptions {
  readonly batchSize: number;
  /** How many loops fill the queue; default: 1. */
  readonly numThreads?: number;
  /** How many examples the queue holds; default: 32. */
  readonly capacity?: number;
  /** Whether each tensor is already a batch of examples; default: false. */
  readonly enqueueMany?: boolean;
  /** The shapes of one example, in the order of the tensors; default: as known to the graph. */
  readonly shapes?: readonly PartialShape[];
  /** Whether the last batch may be smaller; default: false. */
  readonly allowSmallerFinalBatch?: boolean;
  /** The name by which sessions share the queue; default: the name of its op. */
  readonly sharedName?: string;
  /** The name scope of the ops; default: `batch` or `shuffle_batch`. */
  readonly name?: string;
}

export interface DynamicBatchOptions extends QueueBatchOptions {
  /** Whether to pad examples of different sizes with zeros; default: false. */
  readonly dynamicPad?: boolean;
}

export interface ShuffleBatchOptions extends QueueBatchOptions {
  readonly capacity: number;
  readonly minAfterDequeue: number;
  /** The seed of the order; default: the graph's seed, else random. */
  readonly seed?: number;
}

/** As in TensorFlow, a list of one tensor becomes one tensor. */
export type BatchOf<T> = T extends readonly [infer One] ? DatasetElement<One> : DatasetElement<T>;

/** Batches of examples in the order in which they are read. */
export function batch<const T>(tensors: T, given: OrNull<DynamicBatchOptions>): BatchOf<T> {
  const options = withoutNull<DynamicBatchOptions>(given);
  const { capacity = 32, sharedName, dynamicPad, name = 'batch' } = options;
  const make = dynamicPad ? paddingFifoQueue : fifoQueue;
  return throughQueue(tensors, { ...options, name }, (common) => make({ ...common, capacity, sharedName }));
}

/** Batches of examples drawn at random from a queue of at least `minAfterDequeue`. */
export function shuffleBatch<const T>(tensors: T, given: OrNull<ShuffleBatchOptions>): BatchOf<T> {
  const options = withoutNull<ShuffleBatchOptions>(given);
  const { capacity, minAfterDequeue, seed, sharedName, name = 'shuffle_batch' } = options;
  return throughQueue(tensors, { ...options, name }, (common) =>
    randomShuffleQueue({ ...common, capacity, minAfterDequeue, seed, sharedName }),
  );
}

export interface PrefetchQueueOptions {
  /** How many elements are prefetched; default: 4. */
  readonly capacity?: number;
  /** How many loops produce them; default: 1. */
  readonly numThreads?: number;
  /** The name by which sessions share the queue; default: the name of its op. */
  readonly sharedName?: string;
  /** The name scope of the ops; default: `prefetch_queue`. */
  readonly name?: string;
}

/**
 * The same elements, made ahead in loops of their own: no step waits for what they take to be made, parsing above all.
 */
export function prefetchQueue<const T>(
  tensors: T,
  given: OrNull<PrefetchQueueOptions> = {},
): DatasetElement<T> {
  const options = withoutNull<PrefetchQueueOptions>(given);
  const { capacity = 4, numThreads = 1, sharedName, name = 'prefetch_queue' } = options;
  checkThreads(numThreads);
  return building(() =>
    currentGraph().nameScope(name, () => {
      const { spec, components } = flattenElement(tensors);
      const queue = fifoQueue({ capacity, dtypes: components.map(({ dtype }) => dtype), sharedName });
      addFillers(queue, queue.enqueue(components), numThreads);
      return unflattenElement(spec, queue.dequeue()) as DatasetElement<T>;
    }),
  );
}

function checkThreads(numThreads: number): void {
  if (!Number.isSafeInteger(numThreads) || numThreads < 1)
    throw invalid(`numThreads must be an integer of at least 1; got ${numThreads}`);
}

/** One op, run by several loops. */
function addFillers(queue: Queue, op: Operation, numThreads: number): void {
  addQueueRunner(new QueueRunner({ queue, enqueueOps: Array.from({ length: numThreads }, () => op) }));
}

function throughQueue<T>(
  tensors: unknown,
  options: QueueBatchOptions & { readonly name: string },
  make: (common: { readonly dtypes: DType[]; readonly shapes: PartialShape[] }) => Queue,
): T {
  const { batchSize, numThreads = 1, enqueueMany = false, allowSmallerFinalBatch = false } = options;
  checkThreads(numThreads);
  return building(() =>
    currentGraph().nameScope(options.name, () => {
      const { spec, components } = enqueueMany ? flattenSlices(tensors) : flattenElement(tensors);
      const shapes = components.map((component, i) =>
        shapeOf(component, enqueueMany, options.shapes?.[i], i),
      );
      const queue = make({ dtypes: components.map(({ dtype }) => dtype), shapes });
      const op = enqueueMany ? queue.enqueueMany(components) : queue.enqueue(components);
      addFillers(queue, op, numThreads);
      const taken = allowSmallerFinalBatch ? queue.dequeueUpTo(batchSize) : queue.dequeueMany(batchSize);
      const batches = unflattenElement(batched(spec, allowSmallerFinalBatch ? null : batchSize), taken);
      return (Array.isArray(tensors) && tensors.length === 1 ? (batches as unknown[])[0] : batches) as T;
    }),
  );
}

function shapeOf(output: Output, many: boolean, given: PartialShape | undefined, i: number): PartialShape {
  const shape = given ?? (many ? (output.shape?.slice(1) ?? null) : output.shape);
  if (shape === null)
    throw invalid(`The shape of tensor ${i} (${output}) must be known to batch it`, {
      hint: 'Set `shapes`, or call setShape on the tensor.',
    });
  return shape;
}
