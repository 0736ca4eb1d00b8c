// One task of the cluster benchmark, with the model that the settings name.
import { tf } from '../../dist/index.js';
import { settings, trainTask } from './training-task.mjs';

function build() {
  const globalStep = tf.getOrCreateGlobalStep();
  if (settings.model === 'linear') {
    const x = tf.constant(Array.from({ length: 100 }, (_, i) => i / 100));
    const y = x.mul(0.1).add(0.3);
    const w = tf.newVariable(tf.randomUniform([1], -1, 1));
    const b = tf.newVariable(tf.zeros([1]));
    const loss = x.mul(w).add(b).sub(y).square().mean();
    return { loss, globalStep, train: tf.train.adagrad(0.01).minimize(loss, { globalStep }) };
  }
  if (settings.model === 'rows') {
    // The worker chooses a row; each ps slices it from variables of 64 MB.
    const row = tf.randomUniform([], 0, 4096, { dtype: 'int32' });
    const begin = tf.stack([row, tf.zerosLike(row)]);
    const rows = Array.from({ length: 8 }, (_, i) => {
      const w = tf.variable(`w${i}`, { shape: [4096, 4096], initializer: tf.zerosInitializer() });
      return tf.device(w.device, () => tf.slice(w.read(), begin, [1, 4096]));
    });
    return { loss: tf.addN(rows).sum(), globalStep, train: globalStep.assignAdd(1) };
  }
  const images = tf.constant(0.5, { shape: [100, 784] });
  const labels = tf.oneHot(tf.range(0, 100).mod(10), 10);
  const w = tf.variable('w', { shape: [784, 10], initializer: tf.zerosInitializer() });
  const b = tf.variable('b', { shape: [10], initializer: tf.zerosInitializer() });
  const loss = tf.softmaxCrossEntropyWithLogits(labels, images.matMul(w).add(b)).mean();
  return { loss, globalStep, train: tf.train.sgd(0.01).minimize(loss, { globalStep }) };
}

await trainTask(build);
