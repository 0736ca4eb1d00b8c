// Trains until the process is ended. Prints "warm" after a while, counts from when it is told "go", and prints
// "rate STEPS_PER_SECOND": so all workers of a cluster count the same seconds.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

export async function measured(step, { inflight, warm, seconds }) {
  let steps = 0;
  const lane = async () => {
    for (; ; steps++) await step();
  };
  const lanes = Promise.all(Array.from({ length: inflight }, lane));
  const measure = async () => {
    await sleep(warm * 1000);
    console.log('warm');
    await once(process.stdin, 'data');
    const [begun, before] = [performance.now(), steps];
    await sleep(seconds * 1000);
    console.log(`rate ${((steps - before) / (performance.now() - begun)) * 1000}`);
  };
  await Promise.all([lanes, measure()]);
}
