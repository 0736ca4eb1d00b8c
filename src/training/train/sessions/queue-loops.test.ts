/** The queue runners of TensorFlow 1 programs: started once per session, in a process with any number of threads. */
import { expect, it } from 'vitest';
import { answerOf } from '../../../../test/child.js';

/** Several queues with more loops than libuv's pool of a plain Node has threads. */
const PROGRAM = `
const q = tf.train.stringInputProducer(['a', 'b', 'c', 'd'], { numEpochs: 25, shuffle: false });
const batch = tf.train.shuffleBatch(q.dequeue()[0], { batchSize: 10, numThreads: 6, capacity: 40, minAfterDequeue: 20 });
const sv = new tf.train.Supervisor({ saver: null, log: () => {} });
let records = 0;
let second = -1;
await sv.managedSession(undefined, async (session) => {
  const coordinator = new tf.train.Coordinator();
  const loops = tf.train.startQueueRunners(session, { coordinator });
  second = loops.length;
  try {
    for (;;) records += (await session.run(batch)).shape[0];
  } catch (error) {
    if (error.code !== 'SHOAL_TF_OUT_OF_RANGE') throw error;
  }
  coordinator.requestStop();
  await coordinator.join(loops);
});
console.log(JSON.stringify({ records, second }));
`;

it.each([
  ['its default of four threads', undefined],
  ['one thread', '1'],
  ['many threads', '64'],
])(
  'a managed session with a pool of %s runs all loops, and starts none again',
  async (_, UV_THREADPOOL_SIZE) => {
    const env = { UV_THREADPOOL_SIZE };
    expect(await answerOf(PROGRAM, { env })).toEqual({ records: 100, second: 0 });
  },
  120_000,
);
