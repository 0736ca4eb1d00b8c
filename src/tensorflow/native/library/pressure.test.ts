import { expect, test } from 'vitest';
import { answerOf } from '../../../../test/child.js';

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

test('views of tensors rarely cause collections of the whole heap', async () => {
  const views = 20_000;
  const viewBytes = 32 * 1024;
  const { majors } = await answerOf<{ majors: number }>(`
    const { constants, PerformanceObserver } = await import('node:perf_hooks');
    const tensor = Tensor.of(new Float32Array(${viewBytes / 4}));
    let majors = 0;
    new PerformanceObserver((list) => {
      for (const { detail } of list.getEntries())
        if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) majors += 1;
    }).observe({ entryTypes: ['gc'] });
    for (let i = 0; i < ${views}; i++) {
      tensor.lendBytes(0, ${viewBytes}).giveBack();
      if (i % 100 === 0) await new Promise(setImmediate);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    console.log(JSON.stringify({ majors }));`);
  // One per 96 MB of views; V8 alone would collect for each 10 MB or so.
  expect(majors).toBeLessThan((views * viewBytes) / (48 * MB));
});
