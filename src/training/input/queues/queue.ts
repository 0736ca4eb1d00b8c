/** Queues of the graph, as in TensorFlow 1's input pipelines. They are placed on the worker. */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { inScope, scopeOf } from '../../../tensorflow/graph/scope.js';
import { asOutput, type Operand } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { opSeeds } from '../../../tensorflow/ops/random.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { building } from '../dataset/sources.js';

export interface QueueOptions {
  readonly capacity: number;
  readonly dtypes: readonly DType[];
  /** The shapes of one element; required to dequeue many. Default: unknown. */
  readonly shapes?: readonly PartialShape[];
  /** Queues with the same name and device are shared between sessions; default: the name of the op. */
  readonly sharedName?: string;
  /** The name of the op; default: the kind of queue, such as `fifo_queue`. */
  readonly name?: string;
}

export interface RandomShuffleQueueOptions extends QueueOptions {
  /** How many elements remain in the queue after a dequeue, until it is closed. */
  readonly minAfterDequeue: number;
  /** The seed of the order; default: the graph's seed, else random. */
  readonly seed?: number;
}

export class Queue {
  readonly handle: Output<'resource'>;
  readonly dtypes: readonly DType[];
  readonly shapes: readonly PartialShape[] | undefined;

  constructor(handle: Output<'resource'>, dtypes: readonly DType[], shapes?: readonly PartialShape[]) {
    this.handle = handle;
    this.dtypes = dtypes;
    this.shapes = shapes;
  }

  get name(): string {
    return this.handle.op.name;
  }

  /** Adds one element; waits while the queue is full. */
  enqueue(
    components: Operand | readonly Operand[],
    options: { readonly name?: string | null } = {},
  ): Operation {
    return this.#here(() => raw.queueEnqueueV2(this.handle, this.#components(components), options));
  }

  /** Adds the slices along the first dimension, one element each. */
  enqueueMany(
    components: Operand | readonly Operand[],
    options: { readonly name?: string | null } = {},
  ): Operation {
    return this.#here(() => raw.queueEnqueueManyV2(this.handle, this.#components(components), options));
  }

  /** Takes one element; waits for it, and fails with OUT_OF_RANGE when the queue is closed and empty. */
  dequeue(options: { readonly name?: string | null } = {}): Output[] {
    return this.#here(() =>
      raw
        .queueDequeueV2(this.handle, { componentTypes: this.dtypes, ...options })
        .map((output, i) => output.setShape(this.shapes?.[i] ?? null)),
    );
  }

  /** Takes `count` elements, stacked. */
  dequeueMany(count: number | Output<'int32'>, options: { readonly name?: string | null } = {}): Output[] {
    return this.#batch(raw.queueDequeueManyV2, count, typeof count === 'number' ? count : null, options);
  }

  /** Takes `count` elements, or what is left when the queue is closed. */
  dequeueUpTo(count: number | Output<'int32'>, options: { readonly name?: string | null } = {}): Output[] {
    return this.#batch(raw.queueDequeueUpToV2, count, null, options);
  }

  #batch(
    op: typeof raw.queueDequeueManyV2,
    count: number | Output<'int32'>,
    size: number | null,
    options: { readonly name?: string | null },
  ): Output[] {
    const n = typeof count === 'number' ? Tensor.of(count, { dtype: 'int32' }) : count;
    return this.#here(() =>
      op(this.handle, n, { componentTypes: this.dtypes, ...options }).map((output, i) => {
        const shape = this.shapes?.[i];
        return shape ? output.setShape([size, ...shape]) : output;
      }),
    );
  }

  /**
   * Closes the queue for new elements; the queued ones can still be dequeued. `cancelPendingEnqueues` cancels the
   * enqueues that wait; default: false.
   */
  close(
    options: { readonly cancelPendingEnqueues?: boolean | null; readonly name?: string | null } = {},
  ): Operation {
    return this.#here(() => raw.queueCloseV2(this.handle, options));
  }

  size(options: { readonly name?: string | null } = {}): Output<'int32'> {
    return this.#here(() => raw.queueSizeV2(this.handle, options));
  }

  #components(given: Operand | readonly Operand[]): readonly Operand[] {
    const components = this.dtypes.length === 1 && !Array.isArray(given) ? [given as Operand] : given;
    if (!Array.isArray(components) || components.length !== this.dtypes.length) {
      throw invalid(`An element of queue '${this.name}' has ${this.dtypes.length} tensors`);
    }
    // A queue keeps elements beyond the run, but fed strings are freed with it: copies are enqueued.
    return (components as readonly Operand[]).map((component, i) =>
      this.dtypes[i] === 'string' ? raw.stringJoin([asOutput(component, 'string')]) : component,
    );
  }

  /** Builds ops on the queue's device. */
  #here<T>(body: () => T): T {
    const { graph, op } = this.handle;
    return inScope({ ...scopeOf(graph), devices: [op.device], colocation: undefined }, body);
  }
}

const attrsOf = ({ capacity, dtypes, shapes, sharedName = '' }: QueueOptions) => ({
  componentTypes: dtypes,
  shapes,
  capacity,
  sharedName,
});

/** First in, first out. */
export function fifoQueue(given: OrNull<QueueOptions>): Queue {
  const options = withoutNull<QueueOptions>(given);
  const { name = 'fifo_queue' } = options;
  return building(
    () => new Queue(raw.fifoQueueV2({ ...attrsOf(options), name }), options.dtypes, options.shapes),
  );
}

/** First in, first out; batches of elements of different sizes are padded with zeros. */
export function paddingFifoQueue(given: OrNull<QueueOptions>): Queue {
  const options = withoutNull<QueueOptions>(given);
  const { name = 'padding_fifo_queue' } = options;
  return building(
    () => new Queue(raw.paddingFIFOQueueV2({ ...attrsOf(options), name }), options.dtypes, options.shapes),
  );
}

/** Elements come out in random order. */
export function randomShuffleQueue(given: OrNull<RandomShuffleQueueOptions>): Queue {
  const options = withoutNull<RandomShuffleQueueOptions>(given);
  const { name = 'random_shuffle_queue', minAfterDequeue } = options;
  if (minAfterDequeue >= options.capacity)
    throw invalid(`minAfterDequeue (${minAfterDequeue}) must be below the capacity (${options.capacity})`);
  return building(() => {
    const attrs = { ...attrsOf(options), minAfterDequeue, ...opSeeds(options.seed), name };
    return new Queue(raw.randomShuffleQueueV2(attrs), options.dtypes, options.shapes);
  });
}
