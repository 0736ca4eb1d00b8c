/**
 * Scenario 000's model with frequent saves, for experiment 003. The file `fault` in the working directory is read at
 * the start and on SIGUSR2: it names the fault points of the task (see src/async/fault-point.ts).
 */
import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { defineJob, tf } from '../../src/index.js';

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '100000000' },
    'save-secs': { type: 'string', default: '1' },
    replicas: { type: 'string', default: '1' },
    sync: { type: 'boolean', default: false },
    leased: { type: 'boolean', default: false },
  },
});

function readFault(): void {
  process.env.SHOAL_FAULT = existsSync('fault') ? readFileSync('fault', 'utf8').trim() : '';
}
readFault();
process.on('SIGUSR2', readFault);

/** A hundred points between 0 and 1, the same ones on every task: multiples of the golden ratio, modulo 1. */
const POINTS = Array.from({ length: 100 }, (_, i) => (i * 0.6180339887) % 1);
const FEATURES = { x: tf.fixedLenFeature([], 'float32'), y: tf.fixedLenFeature([], 'float32') };

export default defineJob({
  name: 'failover',
  seed: 7,
  input: () => {
    if (values.leased)
      return tf.data.tfRecord('data/points-*.tfrecord').repeat().batch(100).parseExample(FEATURES);
    const x = tf.constant(POINTS);
    return { x, y: x.mul(0.1).add(0.3) };
  },
  model({ input: { x, y } }) {
    const w = tf.newVariable(tf.randomUniform([1], -1, 1), { name: 'W' });
    const b = tf.newVariable(tf.zeros([1]), { name: 'b' });
    const loss = x.mul(w).add(b).sub(y).square().mean();
    return { loss, optimizer: tf.train.adagrad(0.1), outputs: { W: w, b } };
  },
  train: {
    lastStep: Number(values.steps),
    sync: values.sync,
    logEverySecs: 0.2,
    checkpoint: { everySecs: Number(values['save-secs']), keep: 3, replicas: Number(values.replicas) },
  },
});
