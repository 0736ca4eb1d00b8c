// The models of the cluster benchmark, for a ported program and for a job: `cluster.py` has the same in Python. Without
// an optimizer a step only counts.
import { tf } from 'shoal';

/** Softmax cross-entropy of logits, with the classes in turn. */
function lossOf(logits) {
  const [batch, classes] = logits.shape;
  const labels = tf.oneHot(tf.range(0, batch).mod(classes), classes);
  return tf.softmaxCrossEntropyWithLogits(labels, logits).mean();
}

/** Dense layers of these sizes, the first one that of the input, with ReLU between them. */
function layers(batch, sizes) {
  let x = tf.randomUniform([batch, sizes[0]]);
  for (const [i, size] of sizes.slice(1).entries()) {
    const initializer = tf.randomUniformInitializer(-0.05, 0.05);
    const w = tf.variable(`w${i}`, { shape: [sizes[i], size], initializer });
    const b = tf.variable(`b${i}`, { shape: [size], initializer: tf.zerosInitializer() });
    const sum = x.matMul(w).add(b);
    x = i === sizes.length - 2 ? sum : sum.relu();
  }
  return { loss: lossOf(x), optimizer: tf.train.sgd(0.01) };
}

export const MODELS = {
  linear() {
    const x = tf.constant(Array.from({ length: 100 }, (_, i) => i / 100));
    const y = x.mul(0.1).add(0.3);
    const w = tf.newVariable(tf.randomUniform([1], -1, 1));
    const b = tf.newVariable(tf.zeros([1]));
    return { loss: x.mul(w).add(b).sub(y).square().mean(), optimizer: tf.train.adagrad(0.01) };
  },
  softmax() {
    const images = tf.constant(0.5, { shape: [100, 784] });
    const w = tf.variable('w', { shape: [784, 10], initializer: tf.zerosInitializer() });
    const b = tf.variable('b', { shape: [10], initializer: tf.zerosInitializer() });
    return { loss: lossOf(images.matMul(w).add(b)), optimizer: tf.train.sgd(0.01) };
  },
  perceptron: () => layers(64, [784, 512, 512, 10]),
  dense: () => layers(32, [2048, 4096, 4096, 10]),
  /** The worker chooses a row; each ps slices it from variables of 64 MB. */
  rows() {
    const row = tf.randomUniform([], 0, 4096, { dtype: 'int32' });
    const begin = tf.stack([row, tf.zerosLike(row)]);
    const rows = Array.from({ length: 8 }, (_, i) => {
      const w = tf.variable(`w${i}`, { shape: [4096, 4096], initializer: tf.zerosInitializer() });
      return tf.device(w.device, () => tf.slice(w.read(), begin, [1, 4096]));
    });
    return { loss: tf.addN(rows).sum() };
  },
  gather() {
    const initializer = tf.randomUniformInitializer(-1, 1);
    const table = tf.variable('table', { shape: [200_000, 64], initializer });
    const ids = tf.randomUniform([4096], 0, 200_000, { dtype: 'int32' });
    return { loss: tf.gather(table, ids).square().mean(), optimizer: tf.train.adagrad(0.01) };
  },
};
