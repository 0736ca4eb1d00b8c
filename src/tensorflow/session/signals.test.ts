/** Signals that interrupt the main thread during a synchronous run. */
import { expect, it } from 'vitest';
import { answerOf } from '../../../test/child.js';

// A profiler interrupts the main thread by signals, thousands of times a second. Code that oneDNN generates for matrix
// products on some CPUs lets a signal overwrite the heap.
it('matrix products survive signals to the main thread', async () => {
  const { runs, isExact } = await answerOf<{ runs: number; isExact: boolean }>(`
    const { Session: Inspector } = await import('node:inspector/promises');
    const graph = new Graph();
    const { value, product } = graph.asDefault(() => {
      const value = tf.placeholder({ dtype: 'float32', shape: [784, 10] });
      return { value, product: tf.constant(0.5, { shape: [100, 784] }).matMul(value) };
    });
    const session = Session.open({ graph });
    const multiply = session.callable(product, [value]);
    const inspector = new Inspector();
    inspector.connect();
    await inspector.post('Profiler.enable');
    await inspector.post('Profiler.setSamplingInterval', { interval: 100 });
    await inspector.post('Profiler.start');
    const ones = new Float32Array(7840).fill(1);
    let isExact = true;
    const runs = 4000;
    for (let i = 0; i < runs; i++) {
      const result = multiply.sync(ones);
      isExact &&= result.data.every((element) => element === 392);
      result.dispose();
    }
    await inspector.post('Profiler.stop');
    session.dispose();
    console.log(JSON.stringify({ runs, isExact }));
  `);
  expect(runs).toBe(4000);
  expect(isExact).toBe(true);
});
