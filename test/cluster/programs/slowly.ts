/** Delays each record by the microseconds in the file COUNT_PACE: a test slows a run until its faults are injected. */
import type { Output } from '../../../src/graph/operation.js';
import * as raw from '../../../src/ops/generated/index.js';
import * as tf from '../../../src/tf.js';

export function slowly(serialized: Output<'string'>): Output<'string'> {
  const types = { outputTypes: ['string'], outputShapes: [[null]] } as const;
  const pause = raw.stringToNumber(raw.readFile(tf.constant(process.env.COUNT_PACE ?? '')), {
    outType: 'int64',
  });
  const late = raw.sleepDataset(tf.data.fromTensors(serialized).variant, pause as Output<'int64'>, types);
  return raw.datasetToSingleElement(late, types)[0] as Output<'string'>;
}
