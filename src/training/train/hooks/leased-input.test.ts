/** Leased input in a monitored session of this process. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import * as tf from '../../../app/tf/index.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { writeIdRecords } from '../../input/testing/id-records.js';
import { MonitoredTrainingSession } from '../sessions/monitored-training-session.js';
import { FeedFnHook } from './feed-fn.js';
import { ShardsHook } from './shards.js';

test('a run whose feeds conflict takes no batch, and the next run continues', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-leased-input-'));
  try {
    await writeIdRecords(folder, 'records', { files: 1, perFile: 4 });
    using graph = new Graph();
    const { hook, trainOp, rate } = graph.asDefault(() => {
      const globalStep = tf.getOrCreateGlobalStep();
      const rate = tf.placeholder({ shape: [] });
      const shards = tf.data.shards({
        files: join(folder, 'records-*'),
        batchSize: 2,
        parse: (serialized) => tf.data.parseExample(serialized, { id: tf.fixedLenFeature([], 'int64') }),
      });
      const hook = new ShardsHook(shards);
      const w = tf.variable('w', { shape: [], initializer: 0 });
      const loss = w.mul(rate).mul(tf.cast(hook.batch.id, 'float32')).sum();
      return { hook, rate, trainOp: tf.train.sgd(1).minimize(loss, { globalStep }) };
    });
    const hooks = [hook, new FeedFnHook(() => [[rate, 1]])];
    let steps = 0;
    await MonitoredTrainingSession({ graph, hooks, log: () => {} }, async (session) => {
      await expect(session.run(trainOp, { feeds: [[rate, 2]] })).rejects.toThrow('is fed twice');
      while (!session.shouldStop()) {
        await session.run(trainOp);
        steps += 1;
      }
    });
    expect(steps).toBe(2);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
