/**
 * Batches requests: those for the same outputs of the same signature whose rows have the same shape share a run. A batch
 * begins when it is full, or when its first request has waited for the timeout, and a place is free. Requests stay in
 * the queue until then, so one that is cancelled or late just leaves it.
 *
 * A request with a bad row fails a whole batch: its requests are then run one by one, so that only the bad one fails.
 */
import { abortError } from '../../../base/async/deadline.js';
import { isShoalError } from '../../../base/errors/errors.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { BatchingConfig } from '../config/config-files.js';
import type { RequestLimits } from '../requests.js';
import { ServingError } from '../status.js';
import { isPaddingTooLarge, joinRows, rowsOf, shapeKey, takeRows } from './rows.js';
import { lateError } from './run-gate.js';

/** Runs one batch, or one request alone. */
export type BatchRun = (values: readonly Tensor[], call: RequestLimits) => Promise<readonly Tensor[]>;

/** What may share runs: the same outputs of the same signature of the same version. */
export interface BatchOwner {
  /** Set when results turned out not to have a row for each row of the inputs. */
  isNotRowWise?: boolean;
}

interface Task {
  readonly values: readonly Tensor[];
  readonly rows: number;
  readonly since: number;
  readonly call: RequestLimits;
  readonly resolve: (values: readonly Tensor[]) => void;
  readonly reject: (error: unknown) => void;
  readonly stop: () => void;
}

interface Queue {
  readonly owner: BatchOwner;
  readonly key: string;
  readonly run: BatchRun;
  readonly tasks: Set<Task>;
  rows: number;
}

export interface BatchEvents {
  batch(rows: number): void;
  waited(ms: number): void;
}

const NO_EVENTS: BatchEvents = { batch: () => {}, waited: () => {} };

export class Batcher {
  readonly #config: BatchingConfig;
  /** In order of the last dispatch: the first one waits longest. */
  readonly #queues = new Map<BatchOwner, Map<string, Queue>>();
  #running = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(config: BatchingConfig) {
    this.#config = config;
  }

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    let count = 0;
    for (const queues of this.#queues.values()) for (const { tasks } of queues.values()) count += tasks.size;
    return count;
  }

  /** Whether requests with these values can share a run; others are run alone. */
  takes(owner: BatchOwner, values: readonly Tensor[]): boolean {
    const rows = rowsOf(values);
    return rows !== undefined && rows <= this.#config.maxBatchSize && !owner.isNotRowWise;
  }

  submit(
    owner: BatchOwner,
    values: readonly Tensor[],
    run: BatchRun,
    call: RequestLimits,
    events: BatchEvents = NO_EVENTS,
  ): Promise<readonly Tensor[]> {
    const { maxBatchSize, maxEnqueuedBatches, padsVariableLengths } = this.#config;
    const { signal, deadline } = call;
    if (signal?.aborted) return Promise.reject(abortError('A request', signal));
    const rows = rowsOf(values) as number;
    const queue = this.#queueOf(owner, shapeKey(values, padsVariableLengths), run);
    if (queue.rows + rows > maxBatchSize * maxEnqueuedBatches) return Promise.reject(fullQueue());
    return new Promise((resolve, reject) => {
      const since = performance.now();
      let timer: NodeJS.Timeout | undefined;
      const leave = (error: Error) => {
        task.stop();
        if (queue.tasks.delete(task)) queue.rows -= rows;
        this.#dropIfEmpty(queue);
        reject(error);
      };
      const onAbort = () => leave(abortError('A request in the queue', signal as AbortSignal));
      const task: Task = {
        values,
        rows,
        since,
        call,
        resolve,
        reject,
        stop: () => {
          clearTimeout(timer);
          signal?.removeEventListener('abort', onAbort);
          events.waited(performance.now() - since);
        },
      };
      queue.tasks.add(task);
      queue.rows += rows;
      signal?.addEventListener('abort', onAbort, { once: true });
      if (deadline !== undefined) timer = setTimeout(() => leave(lateError()), Math.max(0, deadline - since));
      this.#dispatch(events);
    });
  }

  #queueOf(owner: BatchOwner, key: string, run: BatchRun): Queue {
    const queues = this.#queues.get(owner) ?? new Map<string, Queue>();
    this.#queues.set(owner, queues);
    const found = queues.get(key) ?? { owner, key, run, tasks: new Set<Task>(), rows: 0 };
    queues.set(key, found);
    return found;
  }

  /** Clients may send rows of any shape: queues without requests are not kept. */
  #dropIfEmpty({ owner, key, tasks }: Queue): void {
    const queues = this.#queues.get(owner);
    if (!queues || tasks.size > 0) return;
    queues.delete(key);
    if (queues.size === 0) this.#queues.delete(owner);
  }

  /** Starts the batches that are due while there are places. */
  #dispatch(events: BatchEvents): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const { threads, maxBatchSize, timeoutMs } = this.#config;
    let wait = Number.POSITIVE_INFINITY;
    for (const queues of [...this.#queues.values()]) {
      for (const queue of [...queues.values()]) {
        while (queue.tasks.size > 0) {
          const [first] = queue.tasks as unknown as [Task];
          const left = queue.rows >= maxBatchSize ? 0 : first.since + timeoutMs - performance.now();
          if (left > 0) {
            wait = Math.min(wait, left);
            break;
          }
          if (this.#running >= threads) return;
          this.#start(queue, this.#take(queue), events);
        }
      }
    }
    if (Number.isFinite(wait)) this.#timer = setTimeout(() => this.#dispatch(events), Math.ceil(wait));
  }

  /** The first requests of a queue that fit into one batch. */
  #take(queue: Queue): readonly Task[] {
    const batch: Task[] = [];
    let rows = 0;
    for (const task of queue.tasks) {
      if (rows + task.rows > this.#config.maxBatchSize) break;
      rows += task.rows;
      batch.push(task);
    }
    for (const task of batch) {
      queue.tasks.delete(task);
      task.stop();
    }
    queue.rows -= rows;
    return batch;
  }

  #start(queue: Queue, batch: readonly Task[], events: BatchEvents): void {
    // The next turn belongs to another queue.
    const queues = this.#queues.get(queue.owner);
    this.#dropIfEmpty(queue);
    if (queues && this.#queues.delete(queue.owner)) this.#queues.set(queue.owner, queues);
    this.#running += 1;
    void this.#run(queue, batch, events)
      .catch((error: unknown) => {
        for (const { reject } of batch) reject(error);
      })
      .finally(() => {
        this.#running -= 1;
        this.#dispatch(events);
      });
  }

  async #run({ owner, run }: Queue, batch: readonly Task[], events: BatchEvents): Promise<void> {
    const rows = batch.reduce((sum, task) => sum + task.rows, 0);
    events.batch(rows);
    const total = this.#config.allowedSizes.find((size) => size >= rows) ?? rows;
    if (batch.length === 1 && total === rows) {
      await runAlone(run, batch);
      return;
    }
    const columns = batch[0]!.values.map((_, input) => batch.map(({ values }) => values[input] as Tensor));
    if (columns.some(isPaddingTooLarge)) {
      await runAlone(run, batch);
      return;
    }
    const together = new Together(batch);
    let results: readonly Tensor[];
    try {
      const joined = columns.map((tensors) => joinRows(tensors, total));
      results = await run(joined, together.call);
    } catch (error) {
      if (isShoalError(error, 'SHOAL_ABORTED') || batch.length === 1) throw error;
      await runAlone(run, batch);
      return;
    } finally {
      together.end();
    }
    try {
      if (results.some(({ shape }) => shape[0] !== total)) {
        owner.isNotRowWise = true;
        await runAlone(run, batch);
        return;
      }
      let at = 0;
      for (const task of batch) {
        task.resolve(results.map((result) => takeRows(result, at, task.rows)));
        at += task.rows;
      }
    } finally {
      for (const result of results) result.dispose();
    }
  }
}

/** One after the other: they hold one place. */
async function runAlone(run: BatchRun, batch: readonly Task[]): Promise<void> {
  for (const { values, call, resolve, reject } of batch) await run(values, call).then(resolve, reject);
}

/** Cancels requests of a running batch one by one, and the run when none is left. */
class Together {
  readonly #gone = new AbortController();
  readonly #stops: (() => void)[] = [];
  #left: number;

  constructor(batch: readonly Task[]) {
    this.#left = batch.length;
    for (const { call, reject } of batch) {
      const { signal, deadline } = call;
      let isOver = false;
      const leave = (error: Error) => {
        if (isOver) return;
        isOver = true;
        reject(error);
        this.#left -= 1;
        if (this.#left === 0) this.#gone.abort(error);
      };
      const onAbort = () => leave(abortError('A request', signal as AbortSignal));
      signal?.addEventListener('abort', onAbort, { once: true });
      const timer =
        deadline === undefined
          ? undefined
          : setTimeout(() => leave(lateError()), Math.max(0, deadline - performance.now()));
      this.#stops.push(() => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      });
    }
  }

  get call(): RequestLimits {
    return { signal: this.#gone.signal };
  }

  end(): void {
    for (const stop of this.#stops) stop();
  }
}

const fullQueue = (): ServingError =>
  new ServingError(
    'RESOURCE_EXHAUSTED',
    'The batch scheduling queue to which this task was submitted is full',
    { hint: 'Send fewer requests at a time, use more servers, or raise max_enqueued_batches.' },
  );
