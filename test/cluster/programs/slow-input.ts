/** The input of a job whose steps sleep on the worker, without using the processor. */
import { tf } from '../../../src/index.js';
import * as raw from '../../../src/tensorflow/ops/generated/index.js';
import { Tensor } from '../../../src/tensorflow/tensor/tensor.js';

const types = { outputTypes: ['float32'], outputShapes: [[]] } as const;

/** `x` is 1, after a pause of this many milliseconds. */
export function slowInput(ms: string): { x: ReturnType<typeof tf.constant> } {
  const pause = Tensor.of(BigInt(ms) * 1000n);
  const late = raw.sleepDataset(tf.data.fromTensors(tf.constant(1)).variant, pause, types);
  return { x: raw.datasetToSingleElement(late, types)[0] as ReturnType<typeof tf.constant> };
}
