import { expect, test } from 'vitest';
import { answerOf } from '../../test/child.js';

const MB = 1024 * 1024;

test('fetched tensors of 1 MB that are never disposed do not accumulate', async () => {
  const fetches = 1500;
  const { peak, start, live } = await answerOf<{ peak: number; start: number; live: number }>(`
    const graph = new Graph();
    const x = graph.asDefault(() => tf.placeholder({ shape: [] }));
    const block = graph.asDefault(() => tf.fill([${MB / 4}], x));
    const session = Session.open({ graph });
    const start = process.memoryUsage.rss();
    let peak = 0;
    for (let i = 0; i < ${fetches}; i++) {
      await session.run(block, { feeds: [[x, i]] });
      if (i % 50 === 0) peak = Math.max(peak, process.memoryUsage.rss());
    }
    console.log(JSON.stringify({ start, peak, live: liveHandles().tensor }));`);
  // All of them would be 1.5 GB.
  expect((peak - start) / MB).toBeLessThan(fetches / 2);
  expect(live).toBeLessThan(fetches / 2);
});
