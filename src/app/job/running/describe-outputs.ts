/** Formats the outputs of a job for the log: `w = [0.1]`, `y = 100 values of shape [100]`. */

import type { JobEventData } from '../../../base/text/job-event.js';
import { describeResults } from '../../../training/train/evaluation/evaluate.js';
import type { JobResult } from '../definition/job-result.js';

/** The end of the log line of a job that is done: its last loss, and its outputs. */
export function describeResult({
  loss,
  evaluation,
  outputs,
}: Pick<JobResult, 'loss' | 'evaluation' | 'outputs'>): readonly string[] {
  return [
    ...(loss === undefined ? [] : [`loss ${loss.toPrecision(4)}`]),
    ...(evaluation === undefined ? [] : [`evaluation: ${describeResults(evaluation)}`]),
    ...describeOutputs(outputs),
  ];
}

/** The end of a worker's training, as data. */
export function endData(result: JobResult, lastStep: number): JobEventData {
  const { step, ownSteps, loss, evaluation, outputs, exported, interrupted } = result;
  const small = Object.entries(outputs).filter(([, value]) => countOf(shapeOf(value)) <= MAX_VALUES);
  return {
    event: 'end',
    step,
    ownSteps,
    reason: interrupted ? 'interrupted' : step < lastStep ? 'early' : 'lastStep',
    loss,
    evaluation,
    outputs: Object.fromEntries(small),
    exported,
  };
}

/** Larger outputs are described, not printed. */
const MAX_VALUES = 10;

function describeOutputs(outputs: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(outputs).map(([name, value]) => {
    const shape = shapeOf(value);
    const count = countOf(shape);
    return count > MAX_VALUES
      ? `${name} = ${count} values of shape [${shape.join(', ')}]`
      : `${name} = ${JSON.stringify(value, plain)}`;
  });
}

const countOf = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

const shapeOf = (value: unknown): number[] =>
  Array.isArray(value) ? [value.length, ...(value.length > 0 ? shapeOf(value[0]) : [])] : [];

/** A float32 has about seven significant digits; JavaScript would print it with sixteen. */
const DIGITS = 7;

const plain = (_key: string, value: unknown): unknown => {
  if (typeof value === 'bigint') return Number(value);
  return typeof value === 'number' && Number.isFinite(value) ? Number(value.toPrecision(DIGITS)) : value;
};
