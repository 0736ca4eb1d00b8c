/**
 * Scenario 000's model with frequent saves, for experiments 003 and soak. With leased input two tables, one on each ps,
 * count how often each record was applied: a gradient step at rate 1 adds one for each record of its batch.
 */
import { parseArgs } from 'node:util';
import { defineJob, tf } from '../../src/index.js';
import { BATCH, RECORDS, TABLES } from '../cluster/points.js';
import { observed } from './observe.js';

type Tensor = ReturnType<typeof tf.constant>;

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '100000000' },
    'save-secs': { type: 'string', default: '1' },
    replicas: { type: 'string', default: '1' },
    sync: { type: 'boolean', default: false },
    deterministic: { type: 'boolean', default: false },
    leased: { type: 'boolean', default: false },
  },
});

/** A hundred points between 0 and 1, the same ones on every task: multiples of the golden ratio, modulo 1. */
const POINTS = Array.from({ length: 100 }, (_, i) => (i * 0.6180339887) % 1);
const FEATURES = {
  x: tf.fixedLenFeature([], 'float32'),
  y: tf.fixedLenFeature([], 'float32'),
  id: tf.fixedLenFeature([], 'int64'),
};

const train = {
  lastStep: Number(values.steps),
  sync: values.deterministic ? { deterministic: true } : values.sync,
  logEverySecs: 0.2,
  checkpoint: { everySecs: Number(values['save-secs']), keep: 3, replicas: Number(values.replicas) },
};

function line(x: Tensor, y: Tensor) {
  const w = tf.newVariable(tf.randomUniform([1], -1, 1), { name: 'W' });
  const b = tf.newVariable(tf.zeros([1]), { name: 'b' });
  return { loss: x.mul(w).add(b).sub(y).square().mean(), outputs: { W: w, b } };
}

const plain = defineJob({
  name: 'failover',
  seed: 7,
  input: () => {
    const x = tf.constant(POINTS);
    return { x, y: x.mul(0.1).add(0.3) };
  },
  model: ({ input: { x, y } }) => ({ ...line(x, y), optimizer: tf.train.adagrad(0.1) }),
  train,
});

const leased = defineJob({
  name: 'failover',
  seed: 7,
  input: () => tf.data.tfRecord('data/points-*.tfrecord').repeat().batch(BATCH).parseExample(FEATURES),
  model({ input: { x, y, id } }) {
    const { loss, outputs } = line(x, y);
    const table = (name: string) =>
      tf.variable(name, { shape: [RECORDS], initializer: tf.zerosInitializer() });
    const counted = TABLES.map((name) => table(name).gather(id).sum());
    // At half the loss a rate of 1 converges.
    const total = counted.reduce((sum, count) => sum.sub(count), loss.mul(0.5));
    return { loss: total, outputs, optimizer: tf.train.sgd(1) };
  },
  train,
});

export default observed(values.leased ? leased : plain);
