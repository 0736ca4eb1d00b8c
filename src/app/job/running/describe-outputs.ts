/** Formats the outputs of a job for the log: `w = [0.1]`, `y = 100 values of shape [100]`. */

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

/** Larger outputs are described, not printed. */
const MAX_VALUES = 10;

function describeOutputs(outputs: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(outputs).map(([name, value]) => {
    const shape = shapeOf(value);
    const count = shape.reduce((product, size) => product * size, 1);
    return count > MAX_VALUES
      ? `${name} = ${count} values of shape [${shape.join(', ')}]`
      : `${name} = ${JSON.stringify(value, plain)}`;
  });
}

const shapeOf = (value: unknown): number[] =>
  Array.isArray(value) ? [value.length, ...(value.length > 0 ? shapeOf(value[0]) : [])] : [];

/** A float32 has about seven significant digits; JavaScript would print it with sixteen. */
const DIGITS = 7;

const plain = (_key: string, value: unknown): unknown => {
  if (typeof value === 'bigint') return Number(value);
  return typeof value === 'number' && Number.isFinite(value) ? Number(value.toPrecision(DIGITS)) : value;
};
