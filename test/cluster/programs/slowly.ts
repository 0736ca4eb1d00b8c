/** Delays each record by the microseconds in the file COUNT_PACE: a test slows a run until its faults are injected. */

import * as tf from '../../../src/app/tf/index.js';
import type { Output } from '../../../src/tensorflow/graph/operation.js';
import * as raw from '../../../src/tensorflow/ops/generated/index.js';
import { Tensor } from '../../../src/tensorflow/tensor/tensor.js';

const int32 = (value: number) => Tensor.of(value, { dtype: 'int32' });

export function slowly(serialized: Output<'string'>): Output<'string'> {
  const types = { outputTypes: ['string'], outputShapes: [[null]] } as const;
  // Depends on the records: TensorFlow would read a file with a constant name once.
  const nothing = raw.substr(raw.reduceJoin(serialized, int32(0)), int32(0), int32(0));
  const file = raw.stringJoin([tf.constant(process.env.COUNT_PACE ?? ''), nothing]);
  const pause = raw.stringToNumber(raw.readFile(file), { outType: 'int64' });
  const late = raw.sleepDataset(tf.data.fromTensors(serialized).variant, pause as Output<'int64'>, types);
  return raw.datasetToSingleElement(late, types)[0] as Output<'string'>;
}
