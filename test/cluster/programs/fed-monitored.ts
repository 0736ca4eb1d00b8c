/** Trains on records from JavaScript, in the style of TensorFlow 1, and logs the record of each step. */
import { setTimeout as sleep } from 'node:timers/promises';
import * as tf from '../../../src/app/tf/index.js';
import { Graph } from '../../../src/tensorflow/graph/graph.js';
import { MonitoredTrainingSession, type Server } from '../../../src/training/train/index.js';
import { asTask, log } from './as-task.js';
import { counted, fedRecords } from './fed-records.js';

const { FED_STEP_MS = '0' } = process.env;

async function train(server: Server): Promise<void> {
  const graph = new Graph();
  const device = tf.replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
  const { trainOp, id } = graph.asDefault(() =>
    tf.device(device, () => {
      const globalStep = tf.getOrCreateGlobalStep();
      const { id } = fedRecords().iterator().getNext();
      const trainOp = tf.train.sgd(1).minimize(counted(id).loss, { globalStep });
      return { trainOp, id };
    }),
  );
  await MonitoredTrainingSession(
    { graph, server, checkpointDir: './train_logs', saveCheckpointSecs: 1, log },
    async (session) => {
      while (!session.shouldStop()) {
        const [, now] = await session.run([trainOp, id]);
        log(`record ${now.number()}`);
        await sleep(Number(FED_STEP_MS));
      }
    },
  );
  log('trained');
}

await asTask(train);
