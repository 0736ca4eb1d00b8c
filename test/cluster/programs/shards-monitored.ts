/**
 * Counts on the ps how often each record was applied, as a program in the style of TensorFlow 1: a gradient step at
 * rate 1 adds one for each record of its batch. Each task has a separate directory.
 */

import * as tf from '../../../src/app/tf/index.js';
import { Graph } from '../../../src/tensorflow/graph/graph.js';
import { MonitoredTrainingSession, type Server, ShardsHook } from '../../../src/training/train/index.js';
import { asTask, log } from './as-task.js';
import { slowly } from './slowly.js';

const { COUNT_FILES = '', COUNT_RECORDS = '', COUNT_EPOCHS = '' } = process.env;

async function train(server: Server): Promise<void> {
  const graph = new Graph();
  const device = tf.replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
  const { shards, trainOp, globalStep, tables } = graph.asDefault(() =>
    tf.device(device, () => {
      const globalStep = tf.getOrCreateGlobalStep();
      const files = tf.data.shards({
        files: COUNT_FILES,
        batchSize: 6,
        recordsPerShard: 20,
        epochs: Number(COUNT_EPOCHS),
        shuffle: 16,
        parallel: 1,
        parse: (serialized) => tf.parseExample(slowly(serialized), { id: tf.fixedLenFeature([], 'int64') }),
      });
      const shards = new ShardsHook(files, { server });
      const { id } = shards.batch;
      const table = (name: string) =>
        tf.variable(name, { shape: [Number(COUNT_RECORDS)], initializer: tf.zerosInitializer() });
      const tables = { a: table('a'), b: table('b') };
      const loss = tables.a.gather(id).sum().add(tables.b.gather(id).sum()).neg();
      const trainOp = tf.train.sgd(1).minimize(loss, { globalStep, guard: shards.guard });
      return { shards, trainOp, globalStep, tables };
    }),
  );
  let loggedAt = 0;
  let steps = 0;
  const late = (process.env.COUNT_LATE_ENDS ?? '').split(',').map(Number);
  await MonitoredTrainingSession(
    {
      graph,
      server,
      checkpointDir: './train_logs',
      saveCheckpointSecs: 1,
      hooks: [
        shards,
        {
          async end(session) {
            const counts = await session.run(tables);
            log(`counts ${JSON.stringify({ a: counts.a.toArray(), b: counts.b.toArray() })}`);
          },
        },
      ],
      log,
    },
    async (session) => {
      while (!session.shouldStop()) {
        await session.run(trainOp);
        // A run that needs no batch consumes none.
        const step = await session.run(globalStep);
        steps += 1;
        // Simulates a late release from before a recovery.
        if (late.includes(steps))
          await session.runStepFn((context) => shards.shards.input.release(context.session as never));
        if (Date.now() - loggedAt < 200) continue;
        loggedAt = Date.now();
        log(`step ${step.number()}`);
      }
    },
  );
  log('trained');
}

await asTask(train);
