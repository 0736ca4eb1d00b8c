/**
 * Keeps a queue filled by loops alongside the training loop, each of which repeats one enqueue op. The last loop that
 * reaches the end of its input closes the queue.
 *
 * A loop blocks a thread while its queue is full. If all threads were blocked, no step could run and drain the queue, so
 * too many loops for a process are an error.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  invalid,
  isShoalError,
  type ShoalCode,
  ShoalError,
  TF_CODE_NAMES,
} from '../../../base/errors/errors.js';
import { QueueRunnerDefSchema } from '../../../base/proto/generated/model_pb.js';
import { currentGraph, type Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation } from '../../../tensorflow/graph/operation.js';
import { nativeCallQueue } from '../../../tensorflow/session/native-call-queue.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import type { Queue } from './queue.js';

/** Stops loops together, as tf.train's Coordinator does. */
export interface LoopCoordinator {
  shouldStop(): boolean;
  requestStop(error?: unknown): void;
  /** Fires when a stop is requested. */
  readonly signal?: AbortSignal;
}

export interface QueueRunnerParts {
  /** The queue, or its op. */
  readonly queue: Queue | Operation;
  readonly enqueueOps: readonly Operation[];
  /** Closes the queue at the end of the input; default: made for a `Queue`, required for an op. */
  readonly closeOp?: Operation;
  /** Closes the queue and cancels pending enqueues; default: made for a `Queue`, required for an op. */
  readonly cancelOp?: Operation;
  /** Errors that mean the end of the input; default: OUT_OF_RANGE. */
  readonly queueClosedCodes?: readonly ShoalCode[];
}

const POLL_MS = 50;
/** Threads reserved for the steps and for the ops that end the loops. */
const SPARE_THREADS = 3;

export class QueueRunner {
  readonly queue: Operation;
  readonly enqueueOps: readonly Operation[];
  readonly closeOp: Operation;
  readonly cancelOp: Operation;
  readonly queueClosedCodes: readonly ShoalCode[];
  /** The running loops of each session. */
  readonly #running = new WeakMap<Runner, number>();

  constructor(parts: QueueRunnerParts) {
    if (parts.enqueueOps.length === 0) throw invalid('A queue runner needs an enqueue op');
    const { queue } = parts;
    const made = 'handle' in queue;
    this.queue = made ? queue.handle.op : queue;
    const need = (op: Operation | undefined, make: (queue: Queue) => Operation): Operation => {
      if (op) return op;
      if (!made) throw invalid('A queue runner of a queue op needs closeOp and cancelOp');
      return make(queue);
    };
    this.enqueueOps = parts.enqueueOps;
    this.closeOp = need(parts.closeOp, (q) => q.close());
    this.cancelOp = need(parts.cancelOp, (q) => q.close({ cancelPendingEnqueues: true }));
    this.queueClosedCodes = parts.queueClosedCodes ?? ['SHOAL_TF_OUT_OF_RANGE'];
  }

  get name(): string {
    return `QueueRunner '${this.queue.name}'`;
  }

  /**
   * Starts the loops, unless loops of this runner run in the session already. They end at the end of the input or on a
   * stop request. Errors go to the coordinator; the promises never reject.
   */
  createThreads(given: Runner, coordinator: LoopCoordinator): Promise<void>[] {
    const session = given.background ?? given;
    if ((this.#running.get(session) ?? 0) > 0) return [];
    const { capacity } = nativeCallQueue();
    const all = this.queue.graph.getCollection<QueueRunner>(GraphKeys.queueRunners);
    const loopCount = [...new Set([...all, this])].reduce(
      (sum, { enqueueOps }) => sum + enqueueOps.length,
      0,
    );
    if (loopCount + SPARE_THREADS > capacity) {
      throw new ShoalError(
        'SHOAL_UNSUPPORTED',
        `The graph's queue runners have ${loopCount} loops; a process has threads for ${capacity} calls`,
        { hint: 'Use fewer threads for the queues.' },
      );
    }
    this.#running.set(session, this.enqueueOps.length);
    let open = this.enqueueOps.length;
    const close = async () => {
      open -= 1;
      if (open === 0) await session.run(this.closeOp);
    };
    const ended = new AbortController();
    const loops = this.enqueueOps.map((op) =>
      this.#loop(session, coordinator, op, close).finally(() =>
        this.#running.set(session, (this.#running.get(session) ?? 1) - 1),
      ),
    );
    void Promise.all(loops).then(() => ended.abort());
    return [...loops, this.#cancelOnStop(session, coordinator, ended.signal)];
  }

  async #loop(
    session: Runner,
    coordinator: LoopCoordinator,
    op: Operation,
    close: () => Promise<void>,
  ): Promise<void> {
    try {
      while (!coordinator.shouldStop()) await session.run(op);
    } catch (error) {
      if (coordinator.shouldStop()) return;
      if (!this.queueClosedCodes.some((code) => isShoalError(error, code))) {
        coordinator.requestStop(error);
        return;
      }
      try {
        await close();
      } catch (failed) {
        if (!coordinator.shouldStop()) coordinator.requestStop(failed);
      }
    }
  }

  /** Wakes loops that wait for a full queue when a stop is requested. */
  async #cancelOnStop(session: Runner, coordinator: LoopCoordinator, ended: AbortSignal): Promise<void> {
    await stopOrEnd(coordinator, ended);
    if (ended.aborted) return;
    // A closed session has already ended the loops.
    await session.run(this.cancelOp).catch(() => undefined);
  }

  /** As TensorFlow writes it into MetaGraphDefs. */
  toCollectionBytes(): Uint8Array {
    return toBinary(
      QueueRunnerDefSchema,
      create(QueueRunnerDefSchema, {
        queueName: this.queue.name,
        enqueueOpName: this.enqueueOps.map(({ name }) => name),
        closeOpName: this.closeOp.name,
        cancelOpName: this.cancelOp.name,
        queueClosedExceptionTypes: this.queueClosedCodes.map(codeNumber),
      }),
    );
  }

  /** From a MetaGraphDef whose nodes were imported into the graph with the prefix. */
  static fromCollectionBytes(bytes: Uint8Array, graph: Graph = currentGraph(), prefix = ''): QueueRunner {
    const def = fromBinary(QueueRunnerDefSchema, bytes);
    const op = (name: string) => graph.operation(prefix + name);
    const codes = def.queueClosedExceptionTypes.map(
      (code) => `SHOAL_TF_${(TF_CODE_NAMES as readonly string[])[code]}` as ShoalCode,
    );
    return new QueueRunner({
      queue: op(def.queueName),
      enqueueOps: def.enqueueOpName.map(op),
      closeOp: op(def.closeOpName),
      cancelOp: op(def.cancelOpName),
      ...(codes.length > 0 ? { queueClosedCodes: codes } : {}),
    });
  }
}

function codeNumber(code: ShoalCode): number {
  const number = TF_CODE_NAMES.indexOf(code.replace(/^SHOAL_TF_/, '') as (typeof TF_CODE_NAMES)[number]);
  if (number < 0) throw invalid(`${code} is not an error code of TensorFlow`);
  return number;
}

function stopOrEnd(coordinator: LoopCoordinator, ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const done = () => {
      clearInterval(timer);
      resolve();
    };
    ended.addEventListener('abort', done, { once: true });
    if (coordinator.shouldStop()) done();
    else if (coordinator.signal) coordinator.signal.addEventListener('abort', done, { once: true });
    else timer = setInterval(() => coordinator.shouldStop() && done(), POLL_MS);
  });
}

/** Adds the runner to the graph's collection of queue runners. */
export function addQueueRunner(runner: QueueRunner): QueueRunner {
  runner.queue.graph.addToCollection(GraphKeys.queueRunners, runner);
  return runner;
}
