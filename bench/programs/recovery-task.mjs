// One task of the recovery benchmark: scenario 000's program, with a checkpoint every second. It imports the package as a
// user's program does. A task prints "agent at" when its agent listens, a worker its first step after its start and after
// each recovery, with the time.
import { join } from 'node:path';
import { tf } from 'shoal';
import { MonitoredTrainingSession, Server } from 'shoal/train';

const { directory } = JSON.parse(process.env.BENCH);
const log = (line) => console.log(line);

const server = await Server.start({ directory, log });
console.log(`agent at ${server.task.agentAddress}`);
if (server.psTasks.includes(server.task.task)) {
  await server.join({ log });
  process.exit();
}

const device = tf.replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
const { train, globalStep, loss } = tf.device(device, () => {
  const x = tf.constant(Array.from({ length: 100 }, (_, i) => (i * 0.6180339887) % 1));
  const y = x.mul(0.1).add(0.3);
  const w = tf.newVariable(tf.randomUniform([1], -1, 1), { name: 'W' });
  const b = tf.newVariable(tf.zeros([1]), { name: 'b' });
  const loss = x.mul(w).add(b).sub(y).square().mean();
  const globalStep = tf.getOrCreateGlobalStep();
  return { train: tf.train.adagrad(0.01).minimize(loss, { globalStep }), globalStep, loss };
});

let isFirst = true;
const options = {
  server,
  checkpointDir: join(directory, 'train_logs'),
  saveCheckpointSecs: 1,
  saveSummariesSteps: null,
  logStepCountSteps: null,
  onRecovery: () => {
    isFirst = true;
  },
  log,
};
await MonitoredTrainingSession(options, async (session) => {
  for (;;) {
    const [, step] = await session.run([train, globalStep, loss]);
    if (isFirst) console.log(`first step ${step.number()} ${performance.timeOrigin + performance.now()}`);
    isFirst = false;
  }
});
