/** A literal TensorFlow 1 program: sessions on `server.target`, no `server.close()` or `process.exit()` at the end. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Session, tf } from '../../../src/index.js';
import {
  MonitoredTrainingSession,
  Server,
  StopAtStepHook,
  Supervisor,
} from '../../../src/training/train/index.js';

const { MODE = 'monitored', LAST_STEP = '30' } = process.env;
const { values: flags } = parseArgs({
  options: { job_name: { type: 'string' }, task_index: { type: 'string' } },
  strict: false,
});
const home = join(process.env.TASKS_ROOT ?? '', `${flags.job_name}-${flags.task_index}`);
mkdirSync(home, { recursive: true });
process.chdir(home);
const log = (line: string) => console.log(line);
const lastStep = Number(LAST_STEP);
const isChief = flags.task_index === '0';

const server = await Server.start({ log });
if (flags.job_name === 'ps') await server.join({ log });
else await train();
log('the end of the program');

async function train(): Promise<void> {
  // There are so few steps that a worker that starts late would find no other task.
  await server.task.waitFor(
    server.spec.tasks.map(({ id }) => id),
    { timeoutMs: 200_000 },
  );
  if (MODE === 'early') {
    log('no data');
    process.exitCode = 1;
    // A program may close its server, or leave that to its end.
    if (isChief) await server.close();
    return;
  }
  const device = tf.replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
  const { trainOp, globalStep, w } = tf.device(device, () => {
    const w = tf.newVariable(tf.zeros([1]), { name: 'w' });
    const globalStep = tf.getOrCreateGlobalStep();
    const trainOp = tf.train.sgd(0.1).minimize(w.sub(1).square().mean(), { globalStep });
    return { trainOp, globalStep, w };
  });
  if (MODE === 'session') {
    const session = await Session.create({ target: server.target });
    await session.run([w.initializer, globalStep.initializer]);
    for (let i = 0; i < lastStep; i++) await session.run(trainOp);
    log(`step ${(await session.run(globalStep)).number()}`);
    // The same inline: the ps are known by now.
    log(`again ${(await Session.open({ target: server.target }).run(globalStep)).number()}`);
    await session.close();
  } else if (MODE === 'supervisor') {
    const sv = new Supervisor({ isChief, logdir: './train_logs', saveSummariesSecs: 0, log });
    // Never closed, as in most TensorFlow 1 programs.
    const session = await sv.prepareOrWaitForSession(server.target);
    for (let step = 0; step < lastStep && !sv.shouldStop(); )
      [, step] = await session.run([trainOp, globalStep]).then(([, now]) => [0, now.number()]);
    await sv.stop();
  } else {
    const hooks = [new StopAtStepHook({ lastStep })];
    const session = await MonitoredTrainingSession({
      master: server.target,
      isChief,
      checkpointDir: './train_logs',
      hooks,
      log,
    });
    while (!session.shouldStop()) {
      const [, step] = await session.run([trainOp, globalStep]);
      if (step.number() % 100 === 1) log(`step ${step.number()}`);
    }
    await session.close();
  }
}
