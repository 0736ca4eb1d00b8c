// One task of a cluster that trains until it is killed, as a ported program of TensorFlow 1: `training_task.py` is the same
// in Python. A worker prints "model VARIABLES AND OPS", and "warm" after its warm-up. It starts to count at the next input
// line, and prints "rate STEPS_PER_SECOND": so all workers measure the same seconds. With the setting `turnStart`, the
// seconds from the first step of a turn until it counts, it can be measured again and again, and makes no steps between the
// measurements. With the setting `checkpoints` the chief saves, and writes event files.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { tf } from 'shoal';
import { MonitoredTrainingSession, Server } from 'shoal/train';

export const settings = JSON.parse(process.env.BENCH);

/** Trains the model of `build` on a worker. A ps only serves. */
export async function trainTask(build) {
  const server = await Server.start();
  const { task } = server.task;
  if (server.psTasks.includes(task)) return await server.join();
  const psTasks = server.psTasks.length;
  const device = tf.replicaDeviceSetter({ psTasks, workerDevice: task });
  const index = Number(/\d+$/.exec(task)[0]);
  const { train, globalStep, loss } = tf.device(device, () => build({ psTasks, index }));
  describe(globalStep.graph);
  const checkpointDir = settings.checkpoints ? 'train_logs' : undefined;
  await MonitoredTrainingSession({ server, checkpointDir }, (session) =>
    measure(() => session.run([train, globalStep, loss])),
  );
}

function describe(graph) {
  const variables = graph.getCollection('variables').map(({ shape, device }) => `[${shape}] ${device}`);
  const ops = graph.operations().flatMap(({ type }) => (/Apply|Gather/.test(type) ? [type] : []));
  console.log(`model ${JSON.stringify([variables, ops.sort()])}`);
}

async function measure(step) {
  const { inflight, warm, seconds, turnStart } = settings;
  let steps = 0;
  let lastAt = performance.now();
  let turn = Promise.resolve();
  const trainForever = async () => {
    for (;;) {
      await turn;
      await step();
      steps++;
      lastAt = performance.now();
    }
  };
  const training = Promise.all(Array.from({ length: inflight }, trainForever));
  const count = async () => {
    await sleep(warm * 1000);
    for (;;) {
      let go = () => {};
      if (turnStart) turn = new Promise((resolve) => (go = resolve));
      console.log('warm');
      await once(process.stdin, 'data');
      if (turnStart) {
        lastAt = performance.now();
        go();
        await sleep(turnStart * 1000);
      }
      // From the end of a step to the end of a step: the number of long steps in a time would be inexact.
      const [start, before] = [lastAt, steps];
      do await sleep(seconds * 1000);
      while (steps === before);
      console.log(`rate ${((steps - before) / (lastAt - start)) * 1000}`);
    }
  };
  await Promise.all([training, count()]);
}
