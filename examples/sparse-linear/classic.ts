/**
 * Scenario 001 with the API of TensorFlow 1: files through queues, a Supervisor, a sharded Saver. One program, started
 * once for every task.
 *
 *   npx tsx examples/sparse-linear/generate.ts --out data --prefix train --features 1000000
 *   npx tsx examples/sparse-linear/generate.ts --out data --prefix valid --features 1000000 --seed 2 --files 1
 *   node --import tsx examples/sparse-linear/classic.ts --job_name=worker --task_index=0 \
 *     --ps_hosts=… --worker_hosts=…
 */
import { parseArgs } from 'node:util';
import { tf } from 'shoal';
import { Saver, Server, Supervisor } from 'shoal/train';
import { reportFailure } from '../report-failure.js';
import { classify, FEATURES, nameForServing, variables } from './model.js';

// 1. Flags
const { values: FLAGS } = parseArgs({
  options: {
    job_name: { type: 'string', default: 'worker' },
    task_index: { type: 'string', default: '0' },
    train: { type: 'string', default: 'data/train*.tfrecord' },
    validate: { type: 'string', default: 'data/valid*.tfrecord' },
    features: { type: 'string', default: '30000000' },
    batch_size: { type: 'string', default: '1000' },
    epochs: { type: 'string', default: '2' },
    validate_steps: { type: 'string', default: '200' },
    save_model_secs: { type: 'string', default: '60' },
    logdir: { type: 'string', default: './supervisor/' },
  },
  strict: false,
  allowPositionals: true,
}) as { values: Record<string, string> };

// 2. The server of this task
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort(signal));

const server = await Server.start({ log: console.log }).catch(reportFailure);
if (FLAGS.job_name === 'ps') await server.join({ signal: stop.signal, log: console.log });
else {
  await train().catch((error: unknown) => {
    // A signal before the first step makes the start fail.
    if (!stop.signal.aborted) throw error;
  });
}
// The program ends here: the task leaves the cluster by itself.

// 7. The input: files through queues
/** Shuffled batches of the files' records; a few batches are parsed ahead of the steps. `epochs` undefined: endless. */
function input(pattern: string, epochs: number | undefined) {
  const files = tf.train.matchFilenamesOnce(pattern);
  const queue = tf.train.stringInputProducer(files, { numEpochs: epochs });
  const { values } = new tf.train.TFRecordReader().readUpTo(queue, 500);
  const batchSize = Number(FLAGS.batch_size);
  const serialized = tf.train.shuffleBatch(values, {
    batchSize,
    capacity: 20 * batchSize,
    minAfterDequeue: 5 * batchSize,
    numThreads: 4,
    enqueueMany: true,
    shapes: [[]],
    allowSmallerFinalBatch: true,
  });
  const parsed = tf.parseExample(serialized, FEATURES);
  return { serialized, parsed, batch: tf.train.prefetchQueue(parsed) };
}

// 8. The training op
async function train(): Promise<void> {
  const isChief = FLAGS.task_index === '0';
  const graph = tf.getDefaultGraph();
  const psTasks = server.psTasks.length;
  const device = tf.replicaDeviceSetter({ psTasks, workerDevice: server.task.task });
  const parts = tf.device(device, () => {
    const globalStep = tf.getOrCreateGlobalStep();
    const model = variables(Number(FLAGS.features), psTasks);
    const { serialized, parsed, batch } = input(FLAGS.train as string, Number(FLAGS.epochs));
    const { loss } = classify(model, batch);
    const trainOp = tf.train.ftrl(0.01).minimize(loss, { globalStep });
    tf.summary.scalar('loss', loss);
    nameForServing(graph, serialized, classify(model, parsed).scores);

    // 9. The metrics of the validation
    const held = input(FLAGS.validate as string, undefined);
    const check = classify(model, held.batch);
    const metrics = {
      loss: tf.metrics.mean(check.loss),
      accuracy: tf.metrics.accuracy(check.labels, check.prediction),
      auc: tf.metrics.auc(check.labels, tf.slice(check.scores, [0, 1], [-1, 1]).reshape([-1])),
    };
    return { globalStep, loss, trainOp, metrics, initOp: tf.globalVariablesInitializer() };
  });
  const { globalStep, loss, trainOp, metrics, initOp } = parts;

  // 10. A supervisor with a sharded saver
  const saver = new Saver({ maxToKeep: 2, sharded: true, log: console.log });
  const sv = new Supervisor({
    isChief,
    logdir: FLAGS.logdir,
    initOp,
    saver,
    globalStep,
    saveModelSecs: Number(FLAGS.save_model_secs),
    saveSummariesSecs: 10,
    signal: stop.signal,
    log: console.log,
  });
  // 11. The loop
  let own = 0;
  let shown = 0;
  await sv.managedSession(server, async (session) => {
    while (!sv.shouldStop()) {
      const [, step, lossNow] = await session.run([trainOp, globalStep, loss]);
      own += 1;
      if (Date.now() - shown > 1000) {
        shown = Date.now();
        console.log(`step ${step.number()} loss ${lossNow.number().toPrecision(5)}`);
      }
      // 12. The validation
      if (isChief && own % Number(FLAGS.validate_steps) === 0) {
        for (const { reset } of Object.values(metrics)) await session.run(reset);
        const updates = Object.values(metrics).map(({ updateOp }) => updateOp);
        for (let i = 0; i < 5; i++) await session.run(updates);
        const { loss: l, accuracy, auc } = metrics;
        const found = await session.run({ loss: l.value, accuracy: accuracy.value, auc: auc.value });
        const text = Object.entries(found).map(([name, value]) => `${name} ${value.number().toFixed(4)}`);
        console.log(`validation at step ${step.number()}: ${text.join(', ')}`);
      }
    }
  });
  console.log(`done: ${own} steps were made here`);
}
