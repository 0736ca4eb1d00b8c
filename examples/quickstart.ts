/**
 * A minimal example in one process: builds a model of handwritten digits, trains it for a few seconds, and classifies a
 * held-out digit. Run it with `npm run quickstart`.
 */
import { parseArgs } from 'node:util';
import { Graph, Session, tf } from 'shoal';
import { batches, loadDigits, PIXELS } from './digits/data.js';
import { drawDigit } from './digits/draw.js';

const HELP = `Trains softmax regression on handwritten digits, in this process.

  npm run quickstart -- [options]

  --steps <n>     training steps; default: 1000
  --logdir <dir>  write event files for TensorBoard to this directory
  --help          show this help`;

/** Overwrites its own line on a terminal. */
function progress(step: number, steps: number, loss: number, accuracy: number): void {
  const line = `step ${String(step).padStart(String(steps).length)}/${steps}   loss ${loss.toFixed(3)}   accuracy ${(accuracy * 100).toFixed(1)} %`;
  if (process.stdout.isTTY) process.stdout.write(`\r${line}\x1b[K${step === steps ? '\n' : ''}`);
  else console.log(line);
}

async function main(steps: number, logdir: string | undefined, signal: AbortSignal): Promise<void> {
  const digits = loadDigits();
  console.log(`${digits.train.count} digits to train with, ${digits.heldOut.count} held out for the test.`);

  // 1. A graph: the placeholders, the model, the loss, the training step.
  const graph = new Graph();
  const model = graph.asDefault(() => {
    const images = tf.placeholder({ shape: [null, PIXELS], name: 'images' });
    const labels = tf.placeholder({ dtype: 'int32', shape: [null], name: 'labels' });
    const logits = tf.layers.dense(images, 10, { kernelInitializer: tf.zerosInitializer() });
    const loss = tf.losses.sparseSoftmaxCrossEntropy(labels, logits);
    const scores = logits.softmax();
    const accuracy = logits.argMax(1, 'int32').equal(labels).cast('float32').mean();
    const trainOp = tf.train.sgd(0.5).minimize(loss);
    tf.summary.scalar('loss', loss);
    tf.summary.scalar('accuracy', accuracy);
    const summaries = tf.summary.mergeAll();
    return { images, labels, loss, scores, accuracy, trainOp, summaries };
  });

  // 2. A session: TensorFlow runs the graph, and keeps the variables between runs.
  const session = Session.open({ graph });
  await session.run(graph.asDefault(() => tf.globalVariablesInitializer()));
  const writer = logdir === undefined ? undefined : new tf.summary.FileWriter(logdir, { graph });

  // 3. Training, batch by batch.
  let step = 0;
  for (const batch of batches(digits.train, 100)) {
    if (step === steps || signal.aborted) break;
    step += 1;
    const { loss, accuracy, summaries } = await session.run(
      {
        loss: model.loss,
        accuracy: model.accuracy,
        summaries: writer && model.summaries,
        trainOp: model.trainOp,
      },
      {
        feeds: [
          [model.images, batch.images],
          [model.labels, batch.labels],
        ],
      },
    );
    tf.checkFinite(loss, { name: model.loss.name, step });
    if (writer && summaries) writer.addSummary(summaries, step);
    if (step % (process.stdout.isTTY ? 10 : 100) === 0 || step === steps)
      progress(step, steps, loss.number(), accuracy.number());
  }
  await writer?.close();
  if (signal.aborted) {
    console.log(`\nStopped at step ${step}.`);
    await session.close();
    return;
  }

  // 4. The test: held-out digits.
  const { heldOut } = digits;
  const { accuracy, scores } = await session.run(
    { accuracy: model.accuracy, scores: model.scores },
    {
      feeds: [
        [model.images, heldOut.images],
        [model.labels, heldOut.labels],
      ],
    },
  );
  await session.close();
  graph.dispose();
  const first = [...scores.data.subarray(0, 10)].map(Number);
  const predicted = first.indexOf(Math.max(...first));
  console.log(`\n${drawDigit(heldOut.images.subarray(0, PIXELS))}\n`);
  console.log(`The model predicts a ${predicted} (${((first[predicted] as number) * 100).toFixed(0)} %).`);
  console.log(`Its accuracy on the held-out digits is ${(accuracy.number() * 100).toFixed(1)} %.`);
  if (writer) console.log(`See the curves: tensorboard --logdir ${writer.logdir}`);
}

/** Returns undefined after printing the help or an error. */
function readOptions(): { steps: number; logdir: string | undefined } | undefined {
  try {
    const { values } = parseArgs({
      options: {
        steps: { type: 'string', default: '1000' },
        logdir: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) {
      console.log(HELP);
      return undefined;
    }
    const steps = Number(values.steps);
    if (!Number.isSafeInteger(steps) || steps < 1)
      throw new Error(`--steps must be an integer of at least 1`);
    return { steps, logdir: values.logdir };
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${HELP}`);
    process.exitCode = 2;
    return undefined;
  }
}

const options = readOptions();
if (options) {
  const stop = new AbortController();
  process.once('SIGINT', () => {
    process.exitCode = 130;
    stop.abort();
  });
  await main(options.steps, options.logdir, stop.signal);
}
