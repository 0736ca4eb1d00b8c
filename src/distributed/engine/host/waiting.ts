/**
 * Stages that wait for other runs: for an element of a queue, or for the gradients of other workers. Such a stage is not
 * started before its queue or accumulator can serve it, so that it holds no thread meanwhile and can be cancelled at any
 * time. What a queue or accumulator of this task holds changes only by stages of this task: after each of them the
 * waiting ones are asked again.
 */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { LONGEST_TIMER_MS } from '../../../tensorflow/session/native-call.js';
import type { Session } from '../../../tensorflow/session/session.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { waits } from '../partition/op-kinds.js';

/** In case that something other than a stage changes a queue. */
const RECHECK_MS = 200;

export interface Waiter {
  /** Waiters for the same thing start one after the other: the first may take what the second saw. */
  readonly thing: string;
  /** Waiters with the same question get the same answer. */
  readonly question: string;
  readonly isReady: () => boolean;
  /** Runs the stage; calls `ended` when it has ended. */
  readonly start: (ended: () => void) => void;
}

export class WaitingStages {
  readonly #waiting = new Set<Waiter>();
  readonly #busy = new Set<string>();
  #isWakeDue = false;
  #timer: NodeJS.Timeout | undefined;

  /** Adds a waiter; returns the function that removes it, which returns whether it had not started. */
  add(waiter: Waiter): () => boolean {
    this.#waiting.add(waiter);
    this.wake();
    return () => this.#waiting.delete(waiter);
  }

  /** Something may have changed. */
  wake(): void {
    if (this.#waiting.size === 0 || this.#isWakeDue) return;
    this.#isWakeDue = true;
    setImmediate(() => this.#check());
  }

  #check(): void {
    this.#isWakeDue = false;
    clearTimeout(this.#timer);
    const refused = new Set<string>();
    for (const waiter of this.#waiting) {
      const { thing, question } = waiter;
      if (this.#busy.has(thing) || refused.has(question)) continue;
      if (!waiter.isReady()) {
        refused.add(question);
        continue;
      }
      this.#waiting.delete(waiter);
      this.#busy.add(thing);
      waiter.start(() => {
        this.#busy.delete(thing);
        this.wake();
      });
    }
    // The connection or the caller keeps the process alive.
    if (this.#waiting.size > 0) this.#timer = setTimeout(() => this.wake(), RECHECK_MS).unref();
  }
}

export interface WaitCheck extends Pick<Waiter, 'thing' | 'question'> {
  /** Whether the op would not wait now. True as well if that cannot be found out: the op reports the reason. */
  readonly isReady: (values: readonly Tensor[]) => boolean;
}

/** How to ask the queue or accumulator of the waiting op of a stage. */
export function readinessOf(
  session: Session,
  ops: Iterable<Operation>,
  inputs: readonly Output[],
): WaitCheck | undefined {
  const op = waitingOp(ops);
  const handle = op?.inputs[0];
  if (!op || !handle) return undefined;
  const prepared = session.prepare([conditionOf(op, handle)], inputs, [], { inline: 'any' });
  const { type, name } = handle.op;
  const resource = `${type} ${String(handle.op.attr('container') ?? '')} ${String(handle.op.attr('shared_name') || name)}`;
  // An element that is taken makes room for another: those who take do not exclude those who give.
  const thing = `${op.type.startsWith('QueueEnqueue') ? 'room in' : 'content of'} ${resource}`;
  return {
    thing,
    // The number of gradients that an op takes is an input of it.
    question: isQueueOp(op) ? thing : `${thing} for ${op.name}`,
    isReady: (values) => {
      try {
        const [answer] = prepared.sync(values) as [Tensor];
        return answer.item() as boolean;
      } catch {
        return true;
      }
    },
  };
}

const isQueueOp = (op: Operation): boolean => op.type.startsWith('Queue');

function waitingOp(ops: Iterable<Operation>): Operation | undefined {
  const seen = new Set(ops);
  for (const op of seen) {
    if (waits(op)) return op;
    for (const { op: input } of op.inputs) seen.add(input);
  }
  return undefined;
}

/** Whether the op would not wait, as a tensor beside it. */
function conditionOf(op: Operation, handle: Output): Output {
  const { graph } = op;
  const name = (suffix: string) => ({ name: graph.uniqueName(`${op.name}/${suffix}`) });
  const add = (type: string, given: readonly Output[]): Output =>
    graph.op(type, given, {}, name(type)).output();
  const constant = (value: number): Output =>
    graph
      .op('Const', [], { dtype: 'int32', value: Tensor.of(value, { dtype: 'int32' }) }, name('Const'))
      .output();
  if (!isQueueOp(op)) {
    const type = op.type.startsWith('Resource')
      ? 'ResourceAccumulatorNumAccumulated'
      : 'AccumulatorNumAccumulated';
    return add('GreaterEqual', [add(type, [handle]), op.inputs[1] as Output]);
  }
  const suffix = op.type.endsWith('V2') ? 'V2' : '';
  const size = add(`QueueSize${suffix}`, [handle]);
  const isClosed = add(`QueueIsClosed${suffix}`, [handle]);
  if (op.type.startsWith('QueueDequeue')) {
    // A shuffling queue keeps this many elements until it is closed.
    const kept = Number(handle.op.attr('min_after_dequeue') ?? 0);
    return add('LogicalOr', [add('Greater', [size, constant(kept)]), isClosed]);
  }
  const capacity = Number(handle.op.attr('capacity') ?? -1);
  const room = capacity < 0 ? 2 ** 31 - 1 : capacity;
  return add('LogicalOr', [add('Less', [size, constant(room)]), isClosed]);
}

/** The time limit of a waiter; returns the function that ends it. */
export function waitLimit(timeoutMs: number | undefined, onOver: (error: ShoalError) => void): () => void {
  if (timeoutMs === undefined || timeoutMs > LONGEST_TIMER_MS) return () => {};
  const timer = setTimeout(() => {
    onOver(new ShoalError('SHOAL_TF_DEADLINE_EXCEEDED', `the stage waited for ${timeoutMs} ms`));
  }, timeoutMs);
  return () => clearTimeout(timer);
}
