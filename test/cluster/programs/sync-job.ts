/** Each worker has its own fixed part of the data; the parts form one combined batch. */
import { defineJob, tf } from 'shoal';

const { SYNC_SAVE_SECS: saveSecs, SYNC_SAVE_STEPS: saveSteps } = process.env;
export const ROWS = 8;
export const STEPS = 40;

/** The part of the data of one of `count` workers; all of it for a single worker. */
export function rows(index: number, count: number): { x: number[][]; y: number[][] } {
  const mine = Array.from({ length: (ROWS * 3) / count }, (_, i) => i * count + index);
  return { x: mine.map((i) => [Math.sin(i), Math.cos(2 * i)]), y: mine.map((i) => [Math.sin(3 * i)]) };
}

export default defineJob({
  name: 'sync',
  input: ({ index, count }) => {
    const { x, y } = rows(index, count);
    return { x: tf.constant(x), y: tf.constant(y) };
  },
  model({ input }) {
    const { x, y } = input;
    const w = tf.variable('w', { shape: [2, 1], initializer: [[0.5], [-0.25]] });
    const b = tf.variable('b', { shape: [1], initializer: [0.1] });
    const table = tf.variable('table', { shape: [4, 1], initializer: tf.zerosInitializer() });
    const loss = x
      .matMul(w)
      .add(b)
      .add(table.gather([1, 1, 3]).sum())
      .sub(y)
      .square()
      .mean();
    return { loss, optimizer: tf.train.adagrad(0.2), outputs: { w, b, table } };
  },
  train: {
    lastStep: Number(process.env.SYNC_STEPS ?? STEPS),
    sync: true,
    logEverySecs: 1,
    ...(saveSecs ? { checkpoint: { everySecs: Number(saveSecs) } } : {}),
    ...(saveSteps ? { checkpoint: { everySteps: Number(saveSteps) } } : {}),
  },
});
