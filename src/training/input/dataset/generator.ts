/**
 * Datasets of records made in JavaScript by any sync or async iterable, for small data. Every record passes through
 * JavaScript and a queue, about 10 to 100 µs each; large data belongs in files.
 */
import { invalid, isShoalError } from '../../../base/errors/errors.js';
import { currentGraph, type Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';
import type { Tensor, TensorLike } from '../../../tensorflow/tensor/tensor.js';
import type { Dataset } from './dataset.js';
import { FedQueue, InputLost } from './fed-queue.js';
import { leavesOf, type Spec } from './structure.js';

/** The collection of feeders that must run alongside a session to supply datasets with records. */
export const INPUT_FEEDERS = 'input_feeders';

/** The types and shapes of records, in any nesting. Default shape: scalar. */
export type ElementTypes =
  | { readonly dtype: DType; readonly shape?: PartialShape | undefined }
  | readonly ElementTypes[]
  | { readonly [key: string]: ElementTypes };

export type ElementFor<E> = E extends { readonly dtype: infer D }
  ? Output<D & DType>
  : { -readonly [K in keyof E]: ElementFor<E[K]> };

/** The accepted values for a tensor of a record. Nested arrays are not typed: the compiler would recurse forever. */
export type RecordValue = number | bigint | boolean | string | ArrayBufferView | Tensor | readonly unknown[];

export type RecordFor<E> = E extends { readonly dtype: DType }
  ? RecordValue
  : { readonly [K in keyof E]: RecordFor<E[K]> };

export interface GeneratorOptions<E extends ElementTypes> {
  readonly element: E;
  /** How many records the queue holds; default: 1024. */
  readonly capacity?: number;
  /** The name of the queue's ops and of the generator; default: `fed_queue` and `generator`. */
  readonly name?: string;
}

export type Source<R> = () => Iterable<R> | AsyncIterable<R>;

/** Tells a feeder when to stop. */
export interface StopToken {
  shouldStop(): boolean;
  /** Whether the feeder will restart in the same session: its queue stays open. */
  readonly isPause?: boolean;
  /** Receives the promise of a feeder's setup: records must not be read until it settles. */
  readonly onBegin?: (begun: Promise<unknown>) => void;
}

/**
 * A dataset of the records from `source`. It is called for each pass through the dataset, slightly ahead: once the
 * records of a pass are queued, those of the next are requested. After the loss of a ps a training session restarts the
 * pass, as it does with files.
 */
export function generator<const E extends ElementTypes>(
  source: Source<RecordFor<E>>,
  options: GeneratorOptions<E>,
): Dataset<ElementFor<E>> {
  const spec = specOf(options.element);
  const queue = new FedQueue<ElementFor<E>>(spec, options);
  const graph = queue.dataset.variant.graph;
  graph.addToCollection(
    INPUT_FEEDERS,
    new Feeder(queue as FedQueue<unknown>, source, options.name ?? 'generator'),
  );
  return queue.dataset;
}

function specOf(element: ElementTypes): Spec {
  if (Array.isArray(element)) return { kind: 'list', items: element.map(specOf) };
  if (typeof element !== 'object' || element === null)
    throw invalid('A generator needs the types of its records: { element: { x: { dtype: "float32" } } }');
  if (typeof (element as { dtype?: unknown }).dtype === 'string') {
    const { dtype, shape = [] } = element as { dtype: DType; shape?: PartialShape };
    return { kind: 'tensor', dtype, shape };
  }
  return {
    kind: 'record',
    entries: Object.entries(element).map(([key, item]) => [key, specOf(item as ElementTypes)]),
  };
}

const CHUNK = 64;
/** Errors of a run in a closed session. */
const CLOSED = ['SHOAL_TF_CANCELLED', 'SHOAL_DISPOSED', 'SHOAL_ABORTED'] as const;

/** Moves records from a source into a queue until stopped. */
export class Feeder {
  readonly name: string;
  readonly #queue: FedQueue<unknown>;
  readonly #source: Source<unknown>;

  constructor(queue: FedQueue<unknown>, source: Source<unknown>, name: string) {
    this.#queue = queue;
    this.#source = source;
    this.name = name;
  }

  /**
   * Starts the loop, like a queue runner, before the first step. It ends on a stop request or when the session is
   * closed.
   */
  createThreads(
    session: Runner,
    coordinator: StopToken & { readonly signal?: AbortSignal },
  ): Promise<void>[] {
    return [this.#loop(session, coordinator, coordinator.signal)];
  }

  /** Unblocks consumers that wait for a record. */
  release(session: Runner): Promise<void> {
    return this.#queue.release(session);
  }

  async #loop(session: Runner, stop: StopToken, signal?: AbortSignal): Promise<void> {
    let pass: number | undefined;
    try {
      // A server keeps its queues: records of an earlier session belong to an abandoned pass.
      const begun = queued(this.#queue.begin(session, signal));
      stop.onBegin?.(begun);
      pass = await begun;
      while (!stop.shouldStop()) {
        if (!(await this.#pass(session, stop, signal))) return;
        await queued(this.#queue.end(session, signal));
      }
    } catch (thrown) {
      const isQueue = thrown instanceof QueueError;
      const error = isQueue ? thrown.cause : thrown;
      if (stop.shouldStop() || (isQueue && CLOSED.some((code) => isShoalError(error, code)))) return;
      const lost = isQueue ? InputLost.of(error) : undefined;
      if (lost) throw lost;
      // Ends the waiting consumers. The error is thrown first, so the caller knows why.
      this.#queue.close(session).catch(() => undefined);
      throw error;
    } finally {
      if (stop.shouldStop() && pass !== undefined)
        await this.#queue.release(session, pass, { isPause: stop.isPause });
    }
  }

  /** Returns whether the source ended. */
  async #pass(session: Runner, stop: StopToken, signal?: AbortSignal): Promise<boolean> {
    const leaves = leavesOf(this.#queue.spec).length;
    let held: TensorLike[][] = [];
    const flush = async () => {
      const records = held;
      held = [];
      if (records.length > 0) await queued(this.#queue.push(session, records, signal));
    };
    const source = this.#source();
    const iterator =
      Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
    try {
      for (;;) {
        const next = iterator.next();
        // Records are flushed while the source makes us wait.
        const result = next instanceof Promise && held.length > 0 ? await soonOr(next, flush) : await next;
        if (stop.shouldStop()) return false;
        if (result.done) break;
        held.push(valuesOf(this.#queue.spec, result.value, leaves));
        if (held.length >= Math.min(CHUNK, this.#queue.capacity)) await flush();
      }
    } finally {
      if (stop.shouldStop()) await iterator.return?.();
    }
    await flush();
    return true;
  }
}

/** Marks an error of a queue's run, as opposed to one thrown by the source. */
class QueueError extends Error {}

async function queued<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw new QueueError('', { cause });
  }
}

/** Awaits the result; if it is not available by the next event loop turn, runs `meanwhile` first. */
async function soonOr<R>(next: Promise<R>, meanwhile: () => Promise<void>): Promise<R> {
  const late = Symbol('late');
  const turn = new Promise<typeof late>((resolve) => setImmediate(() => resolve(late)));
  const first = await Promise.race([next, turn]);
  if (first !== late) return first as R;
  // An error of the source is thrown below.
  next.catch(() => undefined);
  await meanwhile();
  return await next;
}

/** The tensors of a record in the order of the leaves. */
function valuesOf(spec: Spec, record: unknown, expected: number): TensorLike[] {
  const values: TensorLike[] = [];
  const visit = (part: Spec, value: unknown, path: string): void => {
    if (part.kind === 'list') {
      for (const [i, item] of part.items.entries()) visit(item, (value as unknown[])?.[i], `${path}[${i}]`);
    } else if (part.kind === 'record') {
      for (const [key, item] of part.entries)
        visit(item, (value as Record<string, unknown>)?.[key], `${path}.${key}`);
    } else if (value === undefined || value === null) {
      throw invalid(
        `A record of a generator lacks ${path === '' ? 'its value' : `'${path.replace(/^\./, '')}'`}`,
      );
    } else values.push(value as TensorLike);
  };
  visit(spec, record, '');
  if (values.length !== expected) throw invalid(`A record has ${values.length} tensors, not ${expected}`);
  return values;
}

/** The running feeders of a graph. */
export interface Feeding {
  /** Resolves when records may be read: leftovers of an earlier pass are discarded. */
  readonly begun: Promise<unknown>;
  /** Resolves when all have stopped; rejects with the first error. */
  readonly done: Promise<void>;
  /** `isPause`: feeders will restart in the same session. */
  stop(options?: { readonly isPause?: boolean }): Promise<void>;
}

/** Moves records alongside a session until stopped. */
export interface FeederLike {
  createThreads(session: Runner, stop: StopToken & { readonly signal: AbortSignal }): Promise<void>[];
}

/** Starts feeders (default: those of the graph) where no managed session does. */
export function startFeeders(
  session: Runner & { readonly graph?: Graph },
  only?: readonly FeederLike[],
): Feeding {
  const abort = new AbortController();
  const begun: Promise<unknown>[] = [];
  const token = {
    shouldStop: () => abort.signal.aborted,
    signal: abort.signal,
    isPause: false,
    onBegin: (one: Promise<unknown>) => void begun.push(one),
  };
  const feeders = only ?? (session.graph ?? currentGraph()).getCollection<FeederLike>(INPUT_FEEDERS);
  const loops = feeders.flatMap((feeder) => feeder.createThreads(session, token));
  const done = Promise.all(loops).then(() => undefined);
  // Callers see errors through `done` or `stop`.
  done.catch(() => undefined);
  return {
    begun: Promise.allSettled(begun),
    done,
    stop: ({ isPause = false } = {}) => {
      token.isPause = isPause;
      abort.abort();
      return done;
    },
  };
}
