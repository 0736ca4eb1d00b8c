/** Leased input in the graph of a worker. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import type { LeasableInput } from '../../input/leases/sharded-files.js';
import type { ShardInput } from '../../input/leases/shards.js';
import type { StepMarks } from '../../input/leases/step-marks.js';

export interface ShardParts {
  readonly files: LeasableInput;
  /** Advice for the log line that describes the input. */
  readonly hint: string | undefined;
  readonly input: ShardInput;
  /** The position of the batch of a step. */
  readonly position: Output<'int64'>;
  /** The in-flight slot of the step; default: 0. */
  readonly slot: Output<'int64'>;
  /** The marks that steps write to the ps; undefined without ps, and in synchronous training. */
  readonly marks: StepMarks | undefined;
}

/** The op that takes a batch from the iterator, among the inputs of `op`. */
export function nextOf(op: Operation): Operation {
  const open = [op];
  for (let next = open.pop(); next; next = open.pop()) {
    if (next.type.startsWith('IteratorGetNext')) return next;
    open.push(...next.inputs.map((output) => output.op));
  }
  throw new ShoalError('SHOAL_INTERNAL', 'The position of a batch does not come from an iterator');
}
