/** Features that are words, and two optimizers. */
import { Session, tf } from 'shoal';

const words = tf.placeholder({ dtype: 'string', shape: [null, 2], name: 'words' });
const labels = tf.placeholder({ shape: [null, 1], name: 'labels' });

// A vocabulary maps words to ids: 0, 1, 2, and 3 for all other words. From a file, with a word in each line:
// tf.lookup.indexTableFromFile('colors.txt', { numOovBuckets: 1 }).
const vocabulary = tf.lookup.indexTableFromTensor(['red', 'green', 'blue'], { numOovBuckets: 1 });
const vectors = tf.variable('vectors', { shape: [4, 3] });
const features = tf.nn.embeddingLookup(vectors, vocabulary.lookup(words)).reshape([-1, 6]);
const weights = tf.variable('weights', { shape: [6, 1] });
const loss = tf.losses.sigmoidCrossEntropy(labels, features.matMul(weights));

// Each optimizer has variables of its own, here by name. A job's model may return such a list as its optimizer.
const globalStep = tf.train.getOrCreateGlobalStep();
const optimizer = tf.train.combine([
  { variables: /^vectors/, use: tf.train.adagrad(0.5) },
  { use: tf.train.sgd(0.1) }, // all others
]);
const step = optimizer.minimize(loss, { globalStep });

const session = Session.open();
await session.run([tf.globalVariablesInitializer(), tf.tablesInitializer()]);
const x = [
  ['red', 'green'],
  ['blue', 'blue'],
  ['green', 'violet'],
  ['red', 'red'],
];
// Arrays of JavaScript are converted; Tensor.of chooses the dtype and the shape.
const y = tf.Tensor.of(Float32Array.of(0, 1, 0, 1), { shape: [4, 1] });
for (let i = 0; i < 200; i++) await session.run(step, { feeds: { words: x, labels: y } });
const left = await session.run(loss, { feeds: { words: x, labels: y } });
console.log(
  `loss ${left.number().toFixed(3)} after step ${(await session.run(globalStep.toOutput())).number()}`,
);
await session.close();
