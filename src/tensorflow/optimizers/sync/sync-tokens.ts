/**
 * The tokens of synchronous training: one queue per worker, on the device of the global step. A worker takes a token
 * from its own queue after each gradient, so a fast worker cannot take the turn of a slow one. A token has no step: it
 * is valid for the global step at the time when it is taken.
 */
import { invalid, isShoalError } from '../../../base/errors/errors.js';
import { formatDevice, parseDevice } from '../../graph/device.js';
import { currentGraph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { group, noOp } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import type { Variable } from '../../variables/variable.js';

const SHARED_NAME = 'sync_token_q';
/** Far more than a worker ever has; the capacity only limits the damage of a bug. */
const CAPACITY = 10_000;

export class SyncTokens {
  /** The tasks of all workers: `/job:worker/task:0` and so on. */
  readonly workers: readonly string[];
  /** How many tokens each worker gets, for the ops below; default: as `tokenCounts` for a complete cluster. */
  readonly counts: Output<'int32'>;
  readonly #own: Output;
  readonly #queues: readonly Output[];
  readonly #globalStep: Variable;
  readonly #required: number;

  constructor(globalStep: Variable, { own, replicas, required }: SyncTokensOptions) {
    this.#globalStep = globalStep;
    this.#required = required;
    this.workers = workersWith(own, replicas);
    this.#queues = currentGraph().colocateWith(globalStep.handle, () => this.workers.map(queueOf));
    this.#own = this.#queues[this.workers.indexOf(own)] as Output;
    this.counts = raw.placeholderWithDefault(Tensor.of(this.#all()), {
      shape: [replicas],
      name: 'token_counts',
    });
  }

  #all(): Int32Array {
    return tokenCounts(
      this.#required,
      this.workers.map(() => true),
    );
  }

  /** Waits for a token of this worker, makes `then`, and returns the global step. */
  take(then: () => Operation = () => noOp()): Output {
    const graph = currentGraph();
    return graph.colocateWith(this.#globalStep.handle, () => {
      const [token] = raw.queueDequeueV2(this.#own, { componentTypes: ['bool'] });
      return graph.controlDependencies([(token as Output).op], () =>
        graph.controlDependencies([then()], () => this.#globalStep.read()),
      );
    });
  }

  /** Gives each worker `counts` tokens. */
  add(): Operation {
    return this.#give(() => this.#split((count) => count));
  }

  /** Gives each worker as many tokens as it lacks to `counts`: those that it has not taken are still valid. */
  topUp(): Operation {
    return this.#give(() =>
      this.#split((count, queue) => atLeastZero(raw.sub(count, raw.queueSizeV2(queue)))),
    );
  }

  /** Gives each worker one token. */
  addOne(): Operation {
    return this.#give(() => this.workers.map(() => Tensor.of(Int32Array.of(1))));
  }

  /** The tokens of the first step: each worker that is present starts with one, without taking it. */
  addFirst(): Operation {
    return this.#give(() =>
      this.#split((count) => atLeastZero(raw.sub(count, Tensor.of(1, { dtype: 'int32' })))),
    );
  }

  /** How many tokens each worker has not taken. */
  left(): Output<'int32'> {
    return currentGraph().colocateWith(this.#globalStep.handle, () =>
      raw.pack(this.#queues.map((queue) => raw.queueSizeV2(queue))),
    ) as Output<'int32'>;
  }

  /** No more tokens will come: a worker that has taken all of its own gets OUT_OF_RANGE instead of waiting. */
  close(): Operation {
    return currentGraph().colocateWith(this.#globalStep.handle, () =>
      group(this.#queues.map((queue) => raw.queueCloseV2(queue))),
    );
  }

  /** Whether `close` has run since the global step's ps started. */
  isClosed(): Output<'bool'> {
    return currentGraph().colocateWith(this.#globalStep.handle, () =>
      raw.queueIsClosedV2(this.#own),
    ) as Output<'bool'>;
  }

  #split(countOf: (count: Output<'int32'>, queue: Output) => Output): Output[] {
    const parts = raw.split(Tensor.of(0, { dtype: 'int32' }), this.counts, { numSplit: this.workers.length });
    return this.#queues.map((queue, i) => countOf(parts[i] as Output<'int32'>, queue));
  }

  #give(countsOf: () => readonly (Output | Tensor)[]): Operation {
    const graph = currentGraph();
    return graph.colocateWith(this.#globalStep.handle, () => {
      const counts = countsOf();
      return group(
        this.#queues.map((queue, i) =>
          raw.queueEnqueueManyV2(queue, [raw.fill(counts[i] as Output<'int32'>, Tensor.of(true))]),
        ),
      );
    });
  }
}

/** Whether an error is that of a worker that waits for a token after `close`. */
export const isEndOfTokens = (error: unknown): boolean =>
  isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE') && error.message.includes(SHARED_NAME);

const atLeastZero = (count: Output): Output => raw.maximum(count, Tensor.of(0, { dtype: 'int32' }));

export interface SyncTokensOptions {
  /** The task of this worker. */
  readonly own: string;
  /** The number of workers. */
  readonly replicas: number;
  /** The number of gradients per step. */
  readonly required: number;
}

/**
 * The tokens of each worker for one step: one, or more if fewer workers than the required gradients are present. A
 * worker that is absent gets none.
 */
export function tokenCounts(required: number, isPresent: readonly boolean[]): Int32Array {
  const present = isPresent.flatMap((is, i) => (is ? [i] : []));
  const counts = new Int32Array(isPresent.length);
  const total = Math.max(required, present.length);
  present.forEach((worker, at) => {
    counts[worker] = Math.floor((total + present.length - 1 - at) / present.length);
  });
  return counts;
}

/** The workers of the cluster of which `own` is one: a task `chief`, if there is one, is the first. */
function workersWith(own: string, count: number): string[] {
  const { job = '', task } = parseDevice(own);
  const hasChief = job === 'chief';
  const workers = Array.from({ length: hasChief ? count - 1 : count }, (_, i) =>
    formatDevice({ job: hasChief ? 'worker' : job, task: String(i) }),
  );
  const all = hasChief ? [own, ...workers] : workers;
  if (!all.includes(own)) {
    throw invalid(`This is task ${task} of job '${job}', but there are only ${count} replicas`, {
      hint: 'totalNumReplicas is the number of workers',
    });
  }
  return all;
}

function queueOf(worker: string): Output {
  const { job, task } = parseDevice(worker);
  return raw.fifoQueueV2({
    componentTypes: ['bool'],
    shapes: [[]],
    capacity: CAPACITY,
    sharedName: `${SHARED_NAME}/${job}/${task}`,
  });
}
