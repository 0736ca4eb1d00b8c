/** Records produced slowly in JavaScript; the source fails at record FED_FAILS_AT. */
import { setTimeout as sleep } from 'node:timers/promises';
import * as tf from '../../../src/app/tf/index.js';
import type { Output } from '../../../src/tensorflow/graph/operation.js';

const { FED_RECORDS = '', FED_EVERY_MS = '0', FED_CAPACITY = '1024', FED_FAILS_AT = '-1' } = process.env;

async function* records(): AsyncGenerator<{ id: number }> {
  console.log('a pass begins');
  for (let id = 0; id < Number(FED_RECORDS); id++) {
    await sleep(Number(FED_EVERY_MS));
    if (id === Number(FED_FAILS_AT)) throw new Error(`no record ${id}`);
    yield { id };
  }
}

export const fedRecords = () =>
  tf.data.generator(records, { element: { id: { dtype: 'int64' } }, capacity: Number(FED_CAPACITY) });

/** A loss whose gradient steps at rate 1 count how often each record was applied. */
export function counted(id: Output<'int64'>) {
  const counts = tf.variable('counts', { shape: [Number(FED_RECORDS)], initializer: tf.zerosInitializer() });
  return { counts, loss: counts.gather(id).sum().neg() };
}
