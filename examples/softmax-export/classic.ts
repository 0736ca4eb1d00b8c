/**
 * Trains softmax regression on a cluster and exports it for serving, with the API of TensorFlow 1: one program, started
 * once for every task. The ps and the worker that exports need not share a disk.
 *
 *   node --import tsx examples/softmax-export/classic.ts --job_name=ps --task_index=0 \
 *     --ps_hosts=127.0.0.1:2220 --worker_hosts=127.0.0.1:2230,127.0.0.1:2231
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { tf } from 'shoal';
import { SavedModelBuilder, tags } from 'shoal/saved-model';
import { MonitoredTrainingSession, Saver, Scaffold, Server, StopAtStepHook } from 'shoal/train';
import { batches, loadDigits, PIXELS } from '../digits/data.js';
import { reportFailure } from '../report-failure.js';
import { CLASSES, softmaxModel } from './model.js';

/** How many held-out digits `expected_file` covers. */
const EXPECTED = 10;

// 1. Flags
const { values: FLAGS } = parseArgs({
  options: {
    ps_hosts: { type: 'string', default: '' },
    worker_hosts: { type: 'string', default: '' },
    job_name: { type: 'string', default: 'worker' },
    task_index: { type: 'string', default: '0' },
    steps: { type: 'string', default: '1000' },
    export_dir: { type: 'string', default: './export' },
    version: { type: 'string', default: '1' },
    // The worker that exports; the chief is worker 0.
    exporter: { type: 'string', default: '0' },
    checkpoint_dir: { type: 'string', default: '' },
    // Where to write what the session returns for the first held-out digits, to compare with what is served.
    expected_file: { type: 'string', default: '' },
  },
  strict: false,
  allowPositionals: true,
}) as { values: Record<string, string> };

// 2. The server of this task
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort(signal));

const server = await Server.start({ log: console.log }).catch(reportFailure);
if (FLAGS.job_name === 'ps') await server.join({ signal: stop.signal, log: console.log });
else await train();
await server.close();
process.exit();

// 7. The training op
async function train(): Promise<void> {
  const device = tf.replicaDeviceSetter({ psTasks: server.psTasks.length, workerDevice: server.task.task });
  const { y, classes, topScores, trainOp, signatureDefMap, tables } = tf.device(device, () => {
    const globalStep = tf.getOrCreateGlobalStep();
    const model = softmaxModel();
    const trainOp = tf.train.sgd(0.01).minimize(model.loss, { globalStep });
    return { ...model, trainOp, tables: tf.tablesInitializer() };
  });
  // 8. Digits
  const digits = loadDigits();
  const { heldOut } = digits;
  const oneHot = (labels: Int32Array) =>
    Array.from(labels, (digit) => CLASSES.map((_, i) => Number(i === digit)));
  // 9. A session with a saver
  await MonitoredTrainingSession(
    {
      server,
      isChief: FLAGS.task_index === '0',
      ...(FLAGS.checkpoint_dir ? { checkpointDir: FLAGS.checkpoint_dir } : {}),
      scaffold: new Scaffold({ saver: new Saver({ maxToKeep: 2, log: console.log }) }),
      hooks: [new StopAtStepHook({ lastStep: Number(FLAGS.steps) })],
      signal: stop.signal,
      log: console.log,
    },
    // 10. The loop, with feeds
    async (sess) => {
      for (const batch of batches(digits.train, 100, 1 + Number(FLAGS.task_index))) {
        if (sess.shouldStop()) break;
        await sess.run(trainOp, { feeds: { x: batch.images, labels: oneHot(batch.labels) } });
      }
      // 11. The accuracy on held-out digits
      const scores = await sess.rawSession.run(y, { feeds: { x: heldOut.images } });
      const rows = scores.toArray() as number[][];
      const correct = rows.filter((row, i) => row.indexOf(Math.max(...row)) === heldOut.labels[i]).length;
      console.log(`accuracy ${(correct / heldOut.count).toFixed(4)} on ${heldOut.count} held-out digits`);
      // 12. The export, by one worker
      if (FLAGS.task_index !== FLAGS.exporter) return;
      const directory = `${FLAGS.export_dir}/${FLAGS.version}`;
      console.log(`exporting to ${directory}`);
      const predictions = async () => {
        const feeds = { x: heldOut.images.subarray(0, EXPECTED * PIXELS) };
        const found = await sess.rawSession.run({ scores: y, classes, topScores }, { feeds });
        return Object.fromEntries(Object.entries(found).map(([name, tensor]) => [name, tensor.toArray()]));
      };
      const before = await predictions();
      const builder = new SavedModelBuilder(directory);
      await builder.addMetaGraphAndVariables(sess, [tags.serving], {
        signatureDefMap,
        legacyInitOp: tables,
        clearDevices: true,
      });
      await builder.save();
      console.log(`exported ${directory}`);
      // Another worker may have made its last step meanwhile: the export is from before or after that step.
      if (FLAGS.expected_file)
        await writeFile(FLAGS.expected_file, JSON.stringify([before, await predictions()]));
    },
  );
}
