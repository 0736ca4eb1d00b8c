/** Trains on records made in JavaScript, in the manner of TensorFlow 1, and tells each that a step took. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { messageOf } from '../../../src/errors/errors.js';
import { Graph } from '../../../src/graph/graph.js';
import * as tf from '../../../src/tf.js';
import { MonitoredTrainingSession, Server } from '../../../src/train/index.js';
import { counted, fedRecords } from './fed-records.js';

const { values: flags } = parseArgs({
  options: { job_name: { type: 'string' }, task_index: { type: 'string' } },
  strict: false,
}) as { values: { job_name: string; task_index: string } };
const { TASKS_ROOT = '', FED_STEP_MS = '0' } = process.env;
const log = (line: string) => console.log(line);
const home = join(TASKS_ROOT, `${flags.job_name}-${flags.task_index}`);
mkdirSync(home, { recursive: true });
process.chdir(home);

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

const server = await Server.start({ log });
try {
  if (flags.job_name === 'ps') await server.join({ log });
  else await train(server);
  await server.close();
  process.exitCode = 0;
} catch (error) {
  log(`failed: ${messageOf(error)}`);
  process.exitCode = 1;
}
process.exit();
