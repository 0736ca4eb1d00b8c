/** Leased input in the graph of a worker. */
import { ShoalError } from '../../errors/errors.js';
import type { Operation, Output } from '../../graph/operation.js';
import type { LeasableInput } from '../../input/leases/sharded-files.js';
import type { ShardInput } from '../../input/leases/shards.js';
import type { StepMarks } from '../../input/leases/step-marks.js';

export interface ShardParts {
  readonly files: LeasableInput;
  /** What else could be done with it, for people. */
  readonly hint: string | undefined;
  readonly input: ShardInput;
  /** Of the batch of a step. */
  readonly position: Output<'int64'>;
  /** Which of the steps under way at once a step is; 0 unless fed. */
  readonly lane: Output<'int64'>;
  /** What steps leave on the ps; none where there is no ps, and in synchronous training, whose steps are the chief's. */
  readonly marks: StepMarks | undefined;
}

/** The op that takes a batch, among those that an op needs. */
export function nextOf(op: Operation): Operation {
  const open = [op];
  for (let next = open.pop(); next; next = open.pop()) {
    if (next.type.startsWith('IteratorGetNext')) return next;
    open.push(...next.inputs.map((output) => output.op));
  }
  throw new ShoalError('SHOAL_INTERNAL', 'The position of a batch comes from no iterator');
}
