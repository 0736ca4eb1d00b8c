/**
 * Feeds JavaScript records into a dataset: a queue on the worker, filled by runs outside of the training steps.
 *
 * A marker after the last record ends the dataset, not the queue: another iteration waits for the next pass. The single
 * producer checks for free capacity before it enqueues, so no run blocks a thread in TensorFlow.
 */
import { sleep, withDeadline } from '../../../base/async/deadline.js';
import { invalid, isShoalError, type ShoalCode, ShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { Feeds } from '../../../tensorflow/session/feeds.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { isFullyDefined, type Shape, sizeOf } from '../../../tensorflow/tensor/shape.js';
import { Tensor, type TensorLike, toTensor } from '../../../tensorflow/tensor/tensor.js';
import { Dataset, int64 } from './dataset.js';
import { traceMap } from './functions.js';
import { building } from './sources.js';
import { describe, type LeafSpec, leavesOf, type Spec, typesOf } from './structure.js';

type Placed = Runner & { readonly server?: unknown; readonly target?: string };

export interface FedQueueOptions {
  readonly capacity?: number;
  readonly name?: string;
  /** The longest interval between polls of a full queue, each of which is a run; default: 10 ms. */
  readonly longestPauseMs?: number;
}

const FOREVER = 2n ** 62n;
/** Extra capacity for end markers. */
const MARKERS = 64;
/** A session over a cluster may wait for other tasks; a marker is not worth a longer wait. */
const MARK_MS = 2000;
/** How long an abandoned run may take to return before a new pass fails. */
const RETURN_MS = 30_000;
const PAUSES_MS = [1, 1, 2, 2, 5, 10, 20, 40, 80];

export class FedQueue<T> {
  /** Ends at each marker. */
  readonly dataset: Dataset<T>;
  readonly spec: Spec;
  readonly capacity: number;
  readonly #leaves: readonly LeafSpec[];
  readonly #longestPauseMs: number;
  /** Whether all records have one size and are enqueued in batches. */
  readonly #stacks: boolean;
  readonly #placeholders: readonly Output[];
  readonly #enqueue: Operation;
  readonly #size: Output<'int32'>;
  readonly #closeOp: Operation;
  readonly #dequeue: readonly Output[];
  /** Running enqueues and dequeues, including abandoned ones; they belong to the pass in which they began. */
  readonly #underWay = new Set<Promise<void>>();
  #pass = 0;

  constructor(spec: Spec, options: FedQueueOptions = {}) {
    const { capacity = 1024, name = 'fed_queue', longestPauseMs = 10 } = options;
    this.#longestPauseMs = longestPauseMs;
    if (!Number.isSafeInteger(capacity) || capacity < 1)
      throw invalid(`The capacity of a queue must be an integer of at least 1; got ${capacity}`);
    this.spec = spec;
    this.capacity = capacity;
    const leaves = leavesOf(spec);
    if (leaves.some(({ kind }) => kind === 'sparse'))
      throw invalid(`Sparse tensors cannot be fed record by record: ${describe(spec)}`);
    this.#leaves = [...leaves, { kind: 'tensor', dtype: 'bool', shape: [] }];
    this.#stacks = leaves.every(({ shape }) => isFullyDefined(shape));
    const types = this.#leaves.map(({ dtype }) => dtype);
    const shapes = this.#stacks ? { shapes: this.#leaves.map(({ shape }) => shape) } : {};
    const made = building(() => {
      const handle = raw.fifoQueueV2({
        componentTypes: types,
        ...shapes,
        capacity: capacity + MARKERS,
        name,
      });
      const placeholders = this.#leaves.map(({ dtype, shape }) =>
        placeholder({ dtype, shape: this.#stacks ? [null, ...(shape as Shape)] : shape }),
      );
      const owned = placeholders.map((fed) => (fed.dtype === 'string' ? ownStrings(fed) : fed));
      return {
        placeholders,
        enqueue: this.#stacks ? raw.queueEnqueueManyV2(handle, owned) : raw.queueEnqueueV2(handle, owned),
        size: raw.queueSizeV2(handle),
        close: raw.queueCloseV2(handle, { cancelPendingEnqueues: true }),
        dequeue: raw.queueDequeueV2(handle, { componentTypes: types }),
        dataset: this.#read(handle, types),
      };
    });
    this.#placeholders = made.placeholders;
    this.#enqueue = made.enqueue;
    this.#size = made.size;
    this.#closeOp = made.close;
    this.#dequeue = made.dequeue;
    this.dataset = made.dataset;
  }

  #read(handle: Output<'resource'>, types: readonly DType[]): Dataset<T> {
    const whole: Spec = { kind: 'list', items: this.#leaves };
    const numbers: Spec = { kind: 'tensor', dtype: 'int64', shape: [] };
    const turns = raw.rangeDataset(int64(0), int64(FOREVER), int64(1), typesOf(numbers));
    const { f, captures } = traceMap(
      numbers,
      () =>
        raw
          .queueDequeueV2(handle, { componentTypes: types })
          .map((output, i) => shaped(output, this.#leaves[i])),
      'fed_queue_read',
    );
    // Cardinality is not preserved: a closed queue ends the dataset.
    const variant = raw.mapDataset(turns, captures, { f, ...typesOf(whole), preserveCardinality: false });
    const more = new Dataset<Output[]>(variant, whole).takeWhile((parts) => parts.at(-1) as Output<'bool'>);
    const values = traceMap(whole, (parts: Output[]) => parts.slice(0, -1), 'fed_queue_values');
    const attrs = { f: values.f, ...typesOf(this.spec), preserveCardinality: true };
    return new Dataset<T>(raw.mapDataset(more.variant, values.captures, attrs), this.spec);
  }

  /** Adds records, each with its tensors in the order of the spec's leaves; waits for free capacity. */
  async push(
    session: Runner,
    records: readonly (readonly TensorLike[])[],
    signal?: AbortSignal,
  ): Promise<void> {
    const step = this.#stacks ? this.capacity : 1;
    for (let from = 0; from < records.length; from += step) {
      await this.#add(
        session,
        records.slice(from, from + step).map((record) => [...record, true]),
        signal,
      );
    }
  }

  /** Marks the end of a pass. */
  async end(session: Runner, signal?: AbortSignal): Promise<void> {
    await this.#add(session, [this.#marker()], signal);
  }

  #marker(): readonly TensorLike[] {
    const nothing = this.#leaves.slice(0, -1).map(({ dtype, shape }) =>
      Tensor.zeros(
        (shape ?? []).map((dim) => dim ?? 0),
        dtype,
      ),
    );
    return [...nothing, false];
  }

  /** Ends the dataset for good once it has been read. */
  async close(session: Runner): Promise<void> {
    await session.run(this.#closeOp);
  }

  /**
   * Unblocks waiting consumers before the session or the iterator is destroyed: destroying a dataset that waits in a
   * dequeue crashes the process. The queue of a local session is closed, since it ends with the session. A server
   * outlives its sessions and would keep a closed queue: there, and in a pause, an end marker is added instead.
   */
  async release(
    session: Runner,
    pass = this.#pass,
    { isPause = false }: { readonly isPause?: boolean | undefined } = {},
  ): Promise<void> {
    // A later session or a later pass has its own consumers, which must not be ended.
    const now: Placed | undefined = session.now ? session.now() : session;
    if (!now || pass !== this.#pass) return;
    const isOutlived = now.server !== undefined || (now.target ?? '') !== '';
    await (isOutlived || isPause ? this.#mark(now) : this.close(now)).catch(() => {
      // The session is already closed and has no consumers.
    });
  }

  async #mark(session: Runner): Promise<void> {
    const signal = AbortSignal.timeout(MARK_MS);
    if ((await this.#queued(session, signal)) >= this.capacity + MARKERS) return;
    await this.#put(session, this.#feedsOf([this.#marker()]), signal);
  }

  /**
   * Begins a pass: discards queued records and those that an earlier pass still adds. There must be no reader. Returns
   * the number of the pass, for its release.
   */
  async begin(session: Runner, signal?: AbortSignal): Promise<number> {
    this.#pass += 1;
    const pass = this.#pass;
    await withDeadline(Promise.all(this.#underWay), `Waiting for earlier feeds of '${this.#enqueue.name}'`, {
      timeoutMs: RETURN_MS,
      signal,
    });
    for (;;) {
      const queued = await this.#queued(session, signal);
      if (pass !== this.#pass)
        throw new ShoalError('SHOAL_ABORTED', `Another pass of '${this.#enqueue.name}' has begun`);
      if (queued === 0) return pass;
      await session.run([...this.#dequeue], { onBegun: this.#onBegun, signal });
    }
  }

  readonly #onBegun = (returned: Promise<void>): void => {
    this.#underWay.add(returned);
    void returned.then(() => this.#underWay.delete(returned));
  };

  async #put(session: Runner, feeds: Feeds, signal?: AbortSignal): Promise<void> {
    await session.run(this.#enqueue, { feeds, onBegun: this.#onBegun, signal });
  }

  async #add(
    session: Runner,
    records: readonly (readonly TensorLike[])[],
    signal?: AbortSignal,
  ): Promise<void> {
    const feeds = this.#feedsOf(records);
    for (let turn = 0; (await this.#queued(session, signal)) + records.length > this.capacity; turn++) {
      const pause = PAUSES_MS[Math.min(turn, PAUSES_MS.length - 1)] as number;
      await sleep(Math.min(pause, this.#longestPauseMs), signal);
    }
    await this.#put(session, feeds, signal);
  }

  #feedsOf(records: readonly (readonly TensorLike[])[]): never {
    const feeds = this.#placeholders.map((output, i) => {
      const leaf = this.#leaves[i] as LeafSpec;
      const values = records.map((record) => record[i] as TensorLike);
      return [
        output,
        this.#stacks ? stack(values, leaf) : toTensor(values[0] as TensorLike, { dtype: leaf.dtype }),
      ];
    });
    return feeds as never;
  }

  async #queued(session: Runner, signal?: AbortSignal): Promise<number> {
    const size = (await session.run(this.#size, signal ? { signal } : {})) as Tensor;
    const count = size.number();
    size.dispose();
    return count;
  }
}

const LOST: readonly ShoalCode[] = ['SHOAL_TF_UNAVAILABLE', 'SHOAL_TF_ABORTED', 'SHOAL_TF_DEADLINE_EXCEEDED'];

/** The session was lost. The queue remains; the next session begins a new pass. */
export class InputLost extends ShoalError {
  /** Converts the error of a run, if the session was lost. */
  static of(error: unknown): InputLost | undefined {
    if (!isShoalError(error) || !LOST.includes(error.code)) return undefined;
    return new InputLost(error.code, `The session of the input was lost: ${error.message}`, { cause: error });
  }
}

/**
 * Copies strings so that they outlive the run. Long strings of a fed tensor share one block of memory, and an op that
 * copies elements, such as a queue, would keep pointers into it.
 */
const ownStrings = (fed: Output): Output => raw.stringJoin([fed]);

const shaped = (output: Output, leaf: LeafSpec | undefined): Output => output.setShape(leaf?.shape ?? null);

/** Stacks records of one size into one tensor. */
function stack(values: readonly TensorLike[], { dtype, shape }: LeafSpec): Tensor {
  const each = shape as Shape;
  const whole = [values.length, ...each];
  if (each.length === 0) return Tensor.of(values.map(scalarOf) as number[], { dtype, shape: whole });
  const tensors = values.map((value) => toTensor(value, { dtype, shape: each }));
  if (dtype === 'string') {
    const flat = tensors.flatMap((tensor) => tensor.reshape([sizeOf(each)]).toArray() as string[]);
    return Tensor.of(flat, { dtype, shape: whole });
  }
  const made = Tensor.allocate(whole, dtype);
  const target = made.data as Float32Array;
  for (const [i, tensor] of tensors.entries()) target.set(tensor.data as Float32Array, i * tensor.size);
  return made;
}

function scalarOf(value: TensorLike): unknown {
  if (value instanceof Tensor) return value.item();
  if (ArrayBuffer.isView(value) && !(value instanceof Uint8Array)) return (value as Float32Array)[0];
  return value;
}
